"""
what: empty answers of the right kind, for a test that compares pair by pair
carries: own
source: timing 19
expect: fail fail fail fail
"""


def expected_tokens_per_round(conditional_acceptance):
    return []


def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    return ()
