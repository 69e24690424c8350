# Right: cumulative products and sums in numpy, one argmax.
import numpy as np


def verify_lengths(old, now, cost_ms):
    if [len(block) for block in old] != [len(block) for block in now]:
        raise ValueError("old and now must have the same shape")
    if not all(0 <= c <= 1 for block in [*old, *now] for c in block):
        raise ValueError("a confidence must be between 0 and 1")
    batch, num_drafts = len(now), sum(len(block) for block in now)
    if len(cost_ms) <= batch + num_drafts:
        raise ValueError("the cost table ends before the most rows")

    if not num_drafts:
        return [0] * batch

    def curve(blocks):
        return np.concatenate([np.cumprod(np.asarray(block, dtype=float)) for block in blocks])

    places = np.concatenate([np.arange(len(block)) for block in now])
    requests = np.repeat(np.arange(batch), [len(block) for block in now])
    gained = np.sort(curve(old))[::-1]
    yields = batch + np.concatenate(([0.0], np.cumsum(gained)))
    thetas = yields / np.asarray(cost_ms[batch : batch + num_drafts + 1], dtype=float)
    budget = int(np.argmax(thetas))
    order = np.lexsort((requests, places, -curve(now)))[:budget]
    return np.bincount(requests[order], minlength=batch).tolist()
