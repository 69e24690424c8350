"""
what: looks at two positions and hopes that the draft is short
carries: own
source: specdec e
"""


def expected_tokens_per_round(conditional_acceptance):
    if any(not 0.0 <= rate <= 1.0 for rate in conditional_acceptance):
        raise ValueError
    first, second = (*conditional_acceptance, 0.0, 0.0)[:2]
    return 1.0 + first + first * second
