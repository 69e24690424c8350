# Returns positions instead of slots.
def rollback_tree_kv(block_table, length, num_nodes, accepted_path, page_size):
    if length + num_nodes > len(block_table) * page_size:
        raise ValueError("the table does not cover the tree")
    for before, node in zip([-1, *accepted_path], accepted_path):
        if not before < node < num_nodes:
            raise ValueError(f"node {node} does not follow {before} in a tree of {num_nodes}")
    moves = [
        (length + node, length + place) for place, node in enumerate(accepted_path) if node != place
    ]
    new_length = length + len(accepted_path)
    num_kept = -(-new_length // page_size)
    return moves, block_table[num_kept:], new_length
