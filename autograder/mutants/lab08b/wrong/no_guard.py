# Computes inf - inf for a row that has seen nothing.
@jit
def online_softmax_step(acc, row_max, row_sum, scores, values, visible, words, node, IS_TREE):
    if IS_TREE:
        visible = visible & ((words >> (node % 64)[None, :] & 1) != 0)
    scores = tl.where(visible, scores, float("-inf"))
    new_max = tl.maximum(row_max, tl.max(scores, axis=1))
    shift = new_max
    weights = tl.exp2(scores - shift[:, None])
    rescale = tl.exp2(row_max - shift)
    row_sum = row_sum * rescale + tl.sum(weights, axis=1)
    acc = acc * rescale[:, None] + tl.dot(weights, values)
    return acc, new_max, row_sum


@jit
def normalize(acc, row_sum):
    return acc / tl.where(row_sum > 0, row_sum, 1.0)[:, None]
