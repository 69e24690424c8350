# Right: one column after the other, in plain Python.
from math import inf


def online_softmax_step(acc, row_max, row_sum, scores, values, visible, words, node, IS_TREE):
    new_acc, new_max, new_sum = [], [], []
    for row, (mixed, largest, total) in enumerate(zip(acc, row_max, row_sum)):
        for column, value in enumerate(values):
            bit = words[row][column] >> node[column] % 64 & 1
            if not visible[row][column] or (IS_TREE and not bit):
                continue
            score = scores[row][column]
            rises = max(largest, score)
            shrink = 0.0 if largest == -inf else 2.0 ** (largest - rises)
            weight, largest = 2.0 ** (score - rises), rises
            mixed = [old * shrink + weight * v for old, v in zip(mixed, value)]
            total = total * shrink + weight
        new_acc.append(list(mixed))
        new_max.append(largest)
        new_sum.append(total)
    return new_acc, new_max, new_sum


def normalize(acc, row_sum):
    return [[v / total if total else 0.0 for v in row] for row, total in zip(acc, row_sum)]
