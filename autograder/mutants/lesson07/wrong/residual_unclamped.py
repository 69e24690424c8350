# Keeps negative differences in the residual.
def residual_probs(target_probs, draft_probs):
    """Law of the token after a rejection: what the target has above the draft, made to sum 1.

    target_probs, draft_probs: two rows of one length -> a row of that length.
    Where nothing is above (equal rows), the target's row is the answer.
    """
    excess = [target - draft for target, draft in zip(target_probs, draft_probs)]
    total = sum(excess)
    return [value / total for value in excess] if total > 0.0 else list(target_probs)


def verify_chain(draft_token_ids, draft_probs, target_probs, coins):
    """How many drafts of a chain stay, and the law of the one token that follows them.

    draft_token_ids  list[int], k ids, k >= 0
    draft_probs      k rows of floats: row i is the law that draft i was drawn from
    target_probs     k + 1 rows: row i is the target's law at the place of draft i
    coins            k floats in [0, 1): draft i stays if coins[i] is below its chance to stay
    Returns (num_accepted, next_probs): an int from 0 to k and a row that sums to 1.
    Raises ValueError where the numbers of rows or coins do not fit k, and for a draft that its
    own row gives no chance: it cannot have been drawn from there.
    Changes none of its arguments.
    """
    num_drafts = len(draft_token_ids)
    if not len(draft_probs) == len(coins) == num_drafts == len(target_probs) - 1:
        raise ValueError("k drafts need k draft rows, k coins and k + 1 target rows")
    for index, token_id in enumerate(draft_token_ids):
        draft, target = draft_probs[index][token_id], target_probs[index][token_id]
        if draft <= 0.0:
            raise ValueError("a draft that its own law gives no chance")
        if coins[index] >= target / draft:
            return index, residual_probs(target_probs[index], draft_probs[index])
    return num_drafts, list(target_probs[num_drafts])
