"""
what: the process ends itself in the middle of the race
source: own
expect: invalid
"""

import os

calls, honest_choice = [0], choose_spec_method


def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    calls[0] += 1
    if calls[0] > 3:
        os._exit(0)
    return honest_choice(methods, baseline_ms_per_token, memory_budget_gb)
