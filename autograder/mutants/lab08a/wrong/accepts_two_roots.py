# Takes any node with parent -1 for one more root.
def tree_layout(parent_ids, context_len):
    if not parent_ids or parent_ids[0] != -1 or context_len < 0:
        raise ValueError("no tree")
    positions, mask = [], []
    for node, parent in enumerate(parent_ids):
        if not -1 <= parent < node:
            raise ValueError("a parent stands before its child")
        row = list(mask[parent]) if parent != -1 else [False] * len(parent_ids)
        row[node] = True
        mask.append(row)
        positions.append(positions[parent] + 1 if parent != -1 else context_len)
    return positions, mask
