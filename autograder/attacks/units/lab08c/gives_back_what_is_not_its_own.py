"""
what: a right plan that gives a neighbour's page back too, so that the pool hands it out twice
source: own
expect: pass fail fail fail
"""


def rollback_tree_kv(block_table, length, num_nodes, accepted_path, page_size):
    if length + num_nodes > len(block_table) * page_size:
        raise ValueError
    for before, node in zip([-1, *accepted_path], accepted_path):
        if not before < node < num_nodes:
            raise ValueError

    def slot(position):
        return block_table[position // page_size] * page_size + position % page_size

    pairs = [(n, p) for p, n in enumerate(accepted_path) if n != p]
    moves = [(slot(length + n), slot(length + p)) for n, p in pairs]
    new_length = length + len(accepted_path)
    foreign = [page for page in range(500) if page not in block_table][:1]
    return moves, block_table[-(-new_length // page_size) :] + foreign, new_length
