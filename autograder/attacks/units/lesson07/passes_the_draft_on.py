"""
what: keeps every draft and pretends, in the law it returns, that the rule was followed
source: own
expect: fail fail fail fail
"""


def verify_chain(draft_token_ids, draft_probs, target_probs, coins):
    return len(draft_token_ids), target_probs[-1]
