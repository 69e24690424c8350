# Right: walks up from every node.
def tree_layout(parent_ids, context_len):
    if not parent_ids or parent_ids[0] != -1 or context_len < 0:
        raise ValueError("a tree has a root, and the context no negative length")
    for node, parent in enumerate(parent_ids[1:], start=1):
        if not 0 <= parent < node:
            raise ValueError(f"node {node}: its parent {parent} does not stand before it")
    positions, mask = [], []
    for node in range(len(parent_ids)):
        row, here = [False] * len(parent_ids), node
        while here != -1:
            row[here] = True
            here = parent_ids[here]
        mask.append(row)
        positions.append(context_len + sum(row) - 1)
    return positions, mask
