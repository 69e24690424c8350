# Right: makes a state of the block alone and merges the two.
@jit
def online_softmax_step(acc, row_max, row_sum, scores, values, visible, words, node, IS_TREE):
    bits = (words >> (node % 64)[None, :]) & 1
    scores = tl.where(visible & ((bits == 1) | (not IS_TREE)), scores, float("-inf"))
    own_max = tl.max(scores, axis=1)
    own_base = tl.where(own_max == float("-inf"), 0.0, own_max)
    weights = tl.exp2(scores - own_base[:, None])
    own_sum, own_acc = tl.sum(weights, axis=1), tl.dot(weights, values)
    new_max = tl.maximum(row_max, own_max)
    base = tl.where(new_max == float("-inf"), 0.0, new_max)
    old_share, own_share = tl.exp2(row_max - base), tl.exp2(own_max - base)
    acc = acc * old_share[:, None] + own_acc * own_share[:, None]
    return acc, new_max, row_sum * old_share + own_sum * own_share


@jit
def normalize(acc, row_sum):
    return acc / tl.maximum(row_sum, 1e-300)[:, None]
