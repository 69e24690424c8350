"""
what: counts every drafted token as accepted, as a verifier that skips the test would
carries: own
source: specdec b
"""


def expected_tokens_per_round(conditional_acceptance):
    return 1.0 + len(conditional_acceptance)
