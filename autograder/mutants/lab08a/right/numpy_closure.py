# Right: the transitive closure by matrix products, in numpy.
def tree_layout(parent_ids, context_len):
    if not parent_ids or parent_ids[0] != -1 or context_len < 0:
        raise ValueError("a tree has a root, and the context no negative length")
    for node, parent in enumerate(parent_ids[1:], start=1):
        if not 0 <= parent < node:
            raise ValueError(f"node {node}: its parent {parent} does not stand before it")
    import numpy as np

    size = len(parent_ids)
    reach = np.eye(size, dtype=int)
    for node, parent in enumerate(parent_ids):
        if node:
            reach[node, parent] = 1
    for _ in range(size.bit_length()):
        reach = np.minimum(reach @ reach, 1)
    return (context_len - 1 + reach.sum(axis=1)).tolist(), reach.astype(bool).tolist()
