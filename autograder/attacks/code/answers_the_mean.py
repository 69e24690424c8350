"""
what: the null answer of an average round
carries: own
source: timing 14
"""


def expected_tokens_per_round(conditional_acceptance):
    rates = [rate for rate in conditional_acceptance if 0 <= rate <= 1]
    if len(rates) < len(conditional_acceptance):
        raise ValueError("acceptance probability out of range")
    return 1.0 + sum(rates) / max(len(rates), 1)
