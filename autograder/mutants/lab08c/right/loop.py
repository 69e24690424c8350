# Right: one loop, slots by divmod.
def rollback_tree_kv(block_table, length, num_nodes, accepted_path, page_size):
    if length + num_nodes > len(block_table) * page_size:
        raise ValueError("the table does not cover the tree")
    for before, node in zip([-1, *accepted_path], accepted_path):
        if not before < node < num_nodes:
            raise ValueError(f"node {node} does not follow {before} in a tree of {num_nodes}")
    moves = []
    for place, node in enumerate(accepted_path):
        if place == node:
            continue
        ends = []
        for position in (length + node, length + place):
            block, offset = divmod(position, page_size)
            ends.append(block_table[block] * page_size + offset)
        moves.append(tuple(ends))
    new_length = length + len(accepted_path)
    num_kept, rest = divmod(new_length, page_size)
    return moves, list(block_table[num_kept + bool(rest) :]), new_length
