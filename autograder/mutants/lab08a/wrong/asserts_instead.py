# Refuses a bad tree with an assertion.
def tree_layout(parent_ids, context_len):
    assert parent_ids and parent_ids[0] == -1 and context_len >= 0
    assert all(0 <= parent < node for node, parent in enumerate(parent_ids) if node)
    positions, mask = [], []
    for node, parent in enumerate(parent_ids):
        row = list(mask[parent]) if node else [False] * len(parent_ids)
        row[node] = True
        mask.append(row)
        positions.append(positions[parent] + 1 if node else context_len)
    return positions, mask
