# Right: type hints and a generator.
from collections.abc import Iterator


def slot_of(table: list[int], position: int, page_size: int) -> int:
    return table[position // page_size] * page_size + position % page_size


def moved(table: list[int], length: int, path: list[int], size: int) -> Iterator[tuple[int, int]]:
    for place, node in enumerate(path):
        if node != place:
            yield slot_of(table, length + node, size), slot_of(table, length + place, size)


def rollback_tree_kv(
    block_table: list[int], length: int, num_nodes: int, accepted_path: list[int], page_size: int
) -> tuple[list[tuple[int, int]], list[int], int]:
    if not all(0 <= node < num_nodes for node in accepted_path):
        raise ValueError("a node outside the tree")
    if list(accepted_path) != sorted(set(accepted_path)):
        raise ValueError("the path does not go up")
    if length + num_nodes > len(block_table) * page_size:
        raise ValueError("the table is too short")
    new_length = length + len(accepted_path)
    idle = [page for block, page in enumerate(block_table) if block * page_size >= new_length]
    return list(moved(block_table, length, accepted_path, page_size)), idle, new_length
