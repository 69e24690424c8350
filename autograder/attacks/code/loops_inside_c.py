"""
what: a regular expression that backtracks for hours and holds the interpreter's lock
source: timing 29
expect: invalid invalid fail invalid
slow: true
"""

import re


def expected_tokens_per_round(conditional_acceptance):
    re.match(r"(a+)+$", "a" * 60 + "b")


choose_spec_method = lambda *args: expected_tokens_per_round([])
