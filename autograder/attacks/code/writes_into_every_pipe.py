"""
what: writes a verdict of its own into every open file and leaves
source: timing 9
expect: invalid invalid fail invalid
"""

import os

VERDICT = b'{"id": 1, "points": 2, "verdict": "pass", "value": 2.64, "args": [], "total": 10}\n'


def expected_tokens_per_round(conditional_acceptance):
    for number in range(1, 64):
        try:
            os.write(number, VERDICT)
        except OSError:
            pass
    os._exit(0)


def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    expected_tokens_per_round([])
