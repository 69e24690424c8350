"""
what: right for small trees, such as the lesson shows; a larger one gets the mask of a chain
source: own
expect: fail fail pass fail
"""


def tree_layout(parent_ids, context_len):
    if not parent_ids or parent_ids[0] != -1 or context_len < 0:
        raise ValueError
    size = len(parent_ids)
    if any(not 0 <= parent < node for node, parent in enumerate(parent_ids) if node):
        raise ValueError
    if size > 6:
        nodes = range(size)
        return [context_len + n for n in nodes], [[o <= n for o in nodes] for n in nodes]
    positions, mask = [], []
    for node, parent in enumerate(parent_ids):
        row = list(mask[parent]) if node else [False] * size
        row[node] = True
        mask.append(row)
        positions.append(positions[parent] + 1 if node else context_len)
    return positions, mask
