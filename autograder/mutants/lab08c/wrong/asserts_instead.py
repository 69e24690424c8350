# Refuses with an assertion.
def rollback_tree_kv(block_table, length, num_nodes, accepted_path, page_size):
    assert all(0 <= node < num_nodes for node in accepted_path)
    assert sorted(set(accepted_path)) == list(accepted_path)

    def slot(position):
        return block_table[position // page_size] * page_size + position % page_size

    moves = [
        (slot(length + node), slot(length + place))
        for place, node in enumerate(accepted_path)
        if node != place
    ]
    new_length = length + len(accepted_path)
    num_kept = -(-new_length // page_size)
    return moves, block_table[num_kept:], new_length
