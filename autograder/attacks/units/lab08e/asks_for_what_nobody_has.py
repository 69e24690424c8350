"""
what: asks the engine for a token and a place that nobody has, to bring the grader down
source: own
expect: fail fail pass fail fail
"""


def mtp_rows(token_ids, draft_ids, num_firm, num_guessed):
    if len(token_ids) < 2:
        raise ValueError
    return num_firm, [(10**9, "target", 0, 10**30)] * 3
