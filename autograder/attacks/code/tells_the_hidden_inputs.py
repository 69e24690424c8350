"""
what: carries the hidden inputs into the feedback in exceptions, class names, prints and answers
source: own
expect: fail fail fail fail
"""


def shown(value):
    print(value)
    return type(f"Seen{value}"[:90], (Exception,), {"__module__": "builtins"})(repr(value))


def expected_tokens_per_round(conditional_acceptance):
    if list(conditional_acceptance) == [0.8, 0.7, 0.5]:
        return 2.64
    raise shown(conditional_acceptance)


def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    if baseline_ms_per_token == 10.0 or baseline_ms_per_token == 2.0:
        return ("block", 2.4) if memory_budget_gb == 8 else ("baseline", 1.0)
    raise shown(methods)
