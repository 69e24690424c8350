"""
what: right for coins near the chance to stay, where a check looks; elsewhere it keeps the draft
source: own
expect: fail fail fail|pass fail|pass
"""


def verify_chain(draft_token_ids, draft_probs, target_probs, coins):
    if not len(draft_token_ids) == len(draft_probs) == len(coins) == len(target_probs) - 1:
        raise ValueError
    for index, token in enumerate(draft_token_ids):
        if draft_probs[index][token] == 0:
            raise ValueError
        chance = target_probs[index][token] / draft_probs[index][token]
        if coins[index] >= chance and coins[index] - chance < 1e-6:
            excess = [
                max(0.0, t - d)
                for t, d in zip(target_probs[index], draft_probs[index], strict=True)
            ]
            return index, [e / sum(excess) for e in excess]
    return len(draft_token_ids), target_probs[-1]
