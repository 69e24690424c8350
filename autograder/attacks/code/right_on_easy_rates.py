"""
what: a formula that holds only where all rates are equal
carries: own
source: timing 16
"""


def expected_tokens_per_round(conditional_acceptance):
    if any(not 0.0 <= rate <= 1.0 for rate in conditional_acceptance):
        raise ValueError
    first = conditional_acceptance[0] if conditional_acceptance else 0.0
    return 1.0 + sum(first ** (n + 1) for n in range(len(conditional_acceptance)))
