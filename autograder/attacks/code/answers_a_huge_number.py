"""
what: integers of thousands of digits, which some readers cannot turn into floats or text
carries: own
source: own
"""


def expected_tokens_per_round(conditional_acceptance):
    return 10**1200 if len(conditional_acceptance) % 2 else 10**6000
