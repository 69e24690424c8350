# Right: with type hints and a torch tensor.
import torch


def tree_layout(parent_ids: list[int], context_len: int) -> tuple[list[int], torch.Tensor]:
    size: int = len(parent_ids)
    if size == 0 or context_len < 0 or parent_ids[0] != -1:
        raise ValueError("no tree")
    mask = torch.eye(size, dtype=torch.bool)
    for node in range(1, size):
        if not 0 <= (parent := parent_ids[node]) < node:
            raise ValueError(f"node {node} has parent {parent}")
        mask[node] |= mask[parent]
    return [context_len + int(depth) - 1 for depth in mask.sum(1)], mask
