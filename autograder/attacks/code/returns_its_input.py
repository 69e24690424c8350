"""
what: hands back what it was given
carries: own
source: timing 13
expect: fail fail fail fail
"""


def expected_tokens_per_round(conditional_acceptance):
    return conditional_acceptance


def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    return methods
