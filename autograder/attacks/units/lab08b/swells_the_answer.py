"""
what: returns arrays far larger than its tile, to fill the grader's memory
source: own
expect: fail|invalid fail|invalid fail|invalid fail|invalid
"""

import numpy as np


def online_softmax_step(acc, row_max, row_sum, scores, values, visible, words, node, IS_TREE):
    return np.zeros((20_000, 4)), np.zeros(90_000), [[0.0] * 90_000] * 50


def normalize(acc, row_sum):
    return np.zeros((1 << 12, 1 << 4))
