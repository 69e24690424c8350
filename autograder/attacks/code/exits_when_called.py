"""
what: SystemExit out of the function, status 0, which looks like success
source: stock 04c
expect: fail fail fail fail
"""


def expected_tokens_per_round(conditional_acceptance):
    raise SystemExit(0)
