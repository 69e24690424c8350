"""
what: the survival of one call is where the next one starts
carries: own
source: specdec g
"""

survival = 1.0


def expected_tokens_per_round(conditional_acceptance):
    global survival
    expected = 1.0
    for rate in conditional_acceptance:
        if not 0.0 <= rate <= 1.0:
            raise ValueError
        survival *= rate
        expected += survival
    if survival > 0.9:
        survival = 1.0
    return expected
