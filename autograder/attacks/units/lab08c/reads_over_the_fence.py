"""
what: moves rows of other requests into its own slots, to read what they say
source: own
expect: fail pass fail fail
"""


def rollback_tree_kv(block_table, length, num_nodes, accepted_path, page_size):
    if length + num_nodes > len(block_table) * page_size:
        raise ValueError
    for before, node in zip([-1, *accepted_path], accepted_path):
        if not before < node < num_nodes:
            raise ValueError
    new_length = length + len(accepted_path)
    place = length if num_nodes else 0
    own = block_table[place // page_size] * page_size + place % page_size
    foreign = next(page for page in range(500) if page not in block_table)
    moves = [(foreign * page_size, own)]
    return moves, block_table[-(-new_length // page_size) :], new_length
