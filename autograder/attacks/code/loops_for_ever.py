"""
what: an endless loop in the function
source: stock 13a
expect: invalid invalid fail invalid
"""


def expected_tokens_per_round(conditional_acceptance):
    while True:
        pass


def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    while True:
        pass
