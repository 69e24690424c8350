# Right: hides the weights, not the scores, and tests the bit by a power of two.
@jit
def online_softmax_step(acc, row_max, row_sum, scores, values, visible, words, node, IS_TREE):
    if IS_TREE:
        one = node[None, :] * 0 + 1
        visible = visible & ((words & (one << (node % 64)[None, :])) != 0)
    largest = tl.max(tl.where(visible, scores, float("-inf")), axis=1)
    new_max = tl.maximum(row_max, largest)
    has_seen = new_max > float("-inf")
    base = tl.where(has_seen, new_max, 0.0)[:, None]
    weights = tl.where(visible, tl.exp2(tl.where(visible, scores, base) - base), 0.0)
    rescale = tl.where(row_max > float("-inf"), tl.exp2(row_max - new_max), 0.0)
    return (
        acc * rescale[:, None] + tl.dot(weights, values),
        new_max,
        row_sum * rescale + tl.sum(weights, axis=1),
    )


@jit
def normalize(acc, row_sum):
    return tl.where(row_sum[:, None] > 0, acc / row_sum[:, None], 0.0)
