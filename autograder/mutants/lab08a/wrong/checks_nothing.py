# Leaves the order of the nodes unchecked.
def tree_layout(parent_ids, context_len):
    positions, mask = [], []
    for node, parent in enumerate(parent_ids):
        row = list(mask[parent]) if node else [False] * len(parent_ids)
        row[node] = True
        mask.append(row)
        positions.append(positions[parent] + 1 if node else context_len)
    return positions, mask
