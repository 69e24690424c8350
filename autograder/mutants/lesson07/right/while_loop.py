# Right: a while loop that stops at the first rejection, tuples as laws.
from math import fsum


def residual_probs(target_probs, draft_probs):
    total = fsum(max(t - d, 0) for t, d in zip(target_probs, draft_probs))
    if total == 0:
        return tuple(target_probs)
    return tuple(max(t - d, 0) / total for t, d in zip(target_probs, draft_probs))


def verify_chain(draft_token_ids, draft_probs, target_probs, coins):
    if len({len(draft_token_ids), len(draft_probs), len(coins), len(target_probs) - 1}) > 1:
        raise ValueError("lengths")
    kept = 0
    while kept < len(draft_token_ids):
        token = draft_token_ids[kept]
        if not draft_probs[kept][token] > 0:
            raise ValueError("never drawn")
        if coins[kept] * draft_probs[kept][token] >= target_probs[kept][token]:
            return kept, residual_probs(target_probs[kept], draft_probs[kept])
        kept += 1
    return kept, tuple(target_probs[-1])
