"""
what: answers NaN everywhere, which is neither larger than a tolerance nor smaller
source: own
expect: fail fail fail fail
"""


def online_softmax_step(acc, row_max, row_sum, scores, values, visible, words, node, IS_TREE):
    nan = float("nan")
    return [[nan] * len(row) for row in acc], [nan] * len(acc), [nan] * len(acc)


def normalize(acc, row_sum):
    return [[float("nan")] * len(row) for row in acc]
