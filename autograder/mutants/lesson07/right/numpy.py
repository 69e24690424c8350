# Right: vectorised with numpy, returns numpy values.
import numpy as np


def residual_probs(target_probs, draft_probs):
    excess = np.clip(np.asarray(target_probs) - np.asarray(draft_probs), 0.0, None)
    return excess / excess.sum() if excess.sum() > 0 else np.asarray(target_probs)


def verify_chain(draft_token_ids, draft_probs, target_probs, coins):
    k = len(draft_token_ids)
    if len(draft_probs) != k or len(coins) != k or len(target_probs) != k + 1:
        raise ValueError("rows")
    if k == 0:
        return 0, np.asarray(target_probs[0])
    places, tokens = np.arange(k), np.asarray(draft_token_ids)
    draft = np.asarray(draft_probs)[places, tokens]
    target = np.asarray(target_probs)[places, tokens]
    if (draft <= 0).any():
        raise ValueError("impossible draft")
    stays = np.asarray(coins) < target / draft
    num_accepted = int(np.cumprod(stays).sum())
    if num_accepted == k:
        return num_accepted, np.asarray(target_probs[k])
    return num_accepted, residual_probs(target_probs[num_accepted], draft_probs[num_accepted])
