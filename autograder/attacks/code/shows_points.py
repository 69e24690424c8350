"""
what: each call shows a number the way a cell's last line does, before the test's own result
source: stock 12b
"""

import sys

honest = expected_tokens_per_round


def expected_tokens_per_round(conditional_acceptance):
    sys.displayhook(1)
    return honest(conditional_acceptance)
