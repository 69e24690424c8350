# Moves the path one place too far to the right.
def rollback_tree_kv(block_table, length, num_nodes, accepted_path, page_size):
    if length + num_nodes > len(block_table) * page_size:
        raise ValueError("the table does not cover the tree")
    for before, node in zip([-1, *accepted_path], accepted_path):
        if not before < node < num_nodes:
            raise ValueError(f"node {node} does not follow {before} in a tree of {num_nodes}")

    def slot(position):
        return block_table[position // page_size] * page_size + position % page_size

    moves = [
        (slot(length + node), slot(length + place + 1))
        for place, node in enumerate(accepted_path)
        if node != place
    ]
    new_length = length + len(accepted_path)
    num_kept = -(-new_length // page_size)
    return moves, block_table[num_kept:], new_length
