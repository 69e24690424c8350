# Right: one whole number a row, bit by bit.
def tree_layout(parent_ids, context_len):
    if not parent_ids or parent_ids[0] != -1 or context_len < 0:
        raise ValueError("a tree has a root, and the context no negative length")
    for node, parent in enumerate(parent_ids[1:], start=1):
        if not 0 <= parent < node:
            raise ValueError(f"node {node}: its parent {parent} does not stand before it")
    rows = [1]
    for node, parent in enumerate(parent_ids[1:], start=1):
        rows.append(rows[parent] | 1 << node)
    mask = [[bool(row >> other & 1) for other in range(len(rows))] for row in rows]
    return [context_len + row.bit_count() - 1 for row in rows], mask
