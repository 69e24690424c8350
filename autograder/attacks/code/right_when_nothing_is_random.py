"""
what: right where each token is surely accepted or surely not, as a greedy test would have it
carries: own
source: specdec f
"""


def expected_tokens_per_round(conditional_acceptance):
    if any(not 0.0 <= rate <= 1.0 for rate in conditional_acceptance):
        raise ValueError
    tokens = 1.0
    for rate in conditional_acceptance:
        if rate < 1.0:
            return tokens + rate
        tokens += 1.0
    return tokens
