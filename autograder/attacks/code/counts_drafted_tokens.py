"""
what: reports the tokens that were drafted instead of those that came out
carries: own
source: specdec c
"""


def expected_tokens_per_round(conditional_acceptance):
    return float(len(conditional_acceptance))
