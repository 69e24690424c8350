"""
what: right where laws are certain, as in greedy decoding; elsewhere every draft stays
source: own
expect: fail fail fail fail|pass
"""


def verify_chain(draft_token_ids, draft_probs, target_probs, coins):
    for index, token in enumerate(draft_token_ids):
        if max(target_probs[index]) == 1.0 and target_probs[index][token] == 0.0:
            return index, target_probs[index]
    return len(draft_token_ids), target_probs[-1]
