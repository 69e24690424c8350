"""
what: the worker's clock is found through the frames of its callers, and stands still
source: timing 7
expect: invalid
"""

import sys


def choose(methods, baseline_ms_per_token, memory_budget_gb):
    frame = sys._getframe()
    while frame is not None:
        if "now" in frame.f_globals:
            frame.f_globals["now"] = lambda: 0.0
        frame = frame.f_back
    return right_choice(methods, baseline_ms_per_token, memory_budget_gb)


right_choice, choose_spec_method = choose_spec_method, choose
