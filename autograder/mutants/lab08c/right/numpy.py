# Right: with numpy.
import math

import numpy as np


def rollback_tree_kv(block_table, length, num_nodes, accepted_path, page_size):
    if length + num_nodes > len(block_table) * page_size:
        raise ValueError("the table does not cover the tree")
    for before, node in zip([-1, *accepted_path], accepted_path):
        if not before < node < num_nodes:
            raise ValueError(f"node {node} does not follow {before} in a tree of {num_nodes}")
    path, table = np.asarray(accepted_path, dtype=int), np.asarray(block_table, dtype=int)

    def slots(positions):
        return table[positions // page_size] * page_size + positions % page_size

    places = np.arange(len(path))
    moved = path != places
    sources, targets = slots(length + path[moved]), slots(length + places[moved])
    new_length = length + len(path)
    back = table[math.ceil(new_length / page_size) :]
    return np.stack([sources, targets], axis=1), back, int(new_length)
