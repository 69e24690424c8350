# Right: a list of all slots, and the live pages as a set.
def rollback_tree_kv(block_table, length, num_nodes, accepted_path, page_size):
    if length + num_nodes > len(block_table) * page_size:
        raise ValueError("the table does not cover the tree")
    for before, node in zip([-1, *accepted_path], accepted_path):
        if not before < node < num_nodes:
            raise ValueError(f"node {node} does not follow {before} in a tree of {num_nodes}")
    slots = [page * page_size + offset for page in block_table for offset in range(page_size)]
    own = slots[length : length + num_nodes]
    moves = [[own[node], own[place]] for place, node in enumerate(accepted_path) if node > place]
    new_length = length + len(accepted_path)
    live = {slot // page_size for slot in slots[:new_length]}
    return moves, [page for page in reversed(block_table) if page not in live], new_length
