# Right: the first draft, then the rest of the chain.
def residual_probs(target_probs, draft_probs):
    excess = [t - d if t > d else 0.0 for t, d in zip(target_probs, draft_probs)]
    total = sum(excess)
    return [e / total for e in excess] if total else list(target_probs)


def verify_chain(draft_token_ids, draft_probs, target_probs, coins):
    if not len(draft_token_ids) == len(draft_probs) == len(coins) == len(target_probs) - 1:
        raise ValueError
    for row, token in zip(draft_probs, draft_token_ids):
        if row[token] == 0:
            raise ValueError
    return rest(draft_token_ids, draft_probs, target_probs, coins)


def rest(drafts, draft_probs, target_probs, coins):
    if not drafts:
        return 0, target_probs[0][:]
    token = drafts[0]
    if coins[0] < target_probs[0][token] / draft_probs[0][token]:
        num, law = rest(drafts[1:], draft_probs[1:], target_probs[1:], coins[1:])
        return 1 + num, law
    return 0, residual_probs(target_probs[0], draft_probs[0])
