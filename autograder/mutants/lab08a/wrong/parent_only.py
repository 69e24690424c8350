# Stops at the parent.
def tree_layout(parent_ids, context_len):
    if not parent_ids or parent_ids[0] != -1 or context_len < 0:
        raise ValueError("a tree has a root, and the context no negative length")
    for node, parent in enumerate(parent_ids[1:], start=1):
        if not 0 <= parent < node:
            raise ValueError(f"node {node}: its parent {parent} does not stand before it")
    positions, mask = [], []
    for node, parent in enumerate(parent_ids):
        mask.append([other in (node, parent) for other in range(len(parent_ids))])
        positions.append(positions[parent] + 1 if node else context_len)
    return positions, mask
