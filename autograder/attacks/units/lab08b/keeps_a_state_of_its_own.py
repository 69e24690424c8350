"""
what: hides scores and values in a memory of its own and takes the whole softmax at the end
source: own
expect: fail fail fail fail
"""

import numpy as np

seen = []


def online_softmax_step(acc, row_max, row_sum, scores, values, visible, words, node, IS_TREE):
    bits = (np.array(words) >> np.array(node) % 64) & 1
    shown = np.array(visible) & ((bits == 1) | (not IS_TREE))
    seen.append((np.where(shown, scores, -np.inf), np.array(values)))
    return acc, row_max, row_sum


def normalize(acc, row_sum):
    rows = [block for block in seen if len(block[0]) == len(acc)]
    scores = np.concatenate([block[0] for block in rows], axis=1)
    weights = np.exp2(scores - scores.max(axis=1, keepdims=True))
    mixed = weights @ np.concatenate([block[1] for block in rows])
    seen.clear()
    return mixed / weights.sum(axis=1, keepdims=True)
