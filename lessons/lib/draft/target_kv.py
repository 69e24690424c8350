"""The target's KV as a drafter may see it: committed tokens of one request, read where they lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from kernels.kv_pool import KVPool, SequenceKV
from kernels.tree_attention import plan_for, tree_attention
from kernels.tree_layout import TreeLayout

Attend = Callable[[int, torch.Tensor], torch.Tensor]


class TargetKV:
    """For reading only: whoever holds it never writes, reserves or frees. The engine lends it."""

    def __init__(self, pool: KVPool, sequence: SequenceKV) -> None:
        self.pool, self.sequence = pool, sequence

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self.sequence.length


def reader(target_kvs: Sequence[TargetKV], group_size: int) -> Attend:
    """attend(layer, query [requests, heads, head_dim], turned) -> [requests, heads * head_dim]: one
    row of each request, which sees every committed token of its own. Good until the target runs
    again; group_size query heads share a KV head. Must hold: one pool lends them all.

    The kernel knows a prefix and a tree behind it: here the last committed token is the tree.
    """
    pool, count = target_kvs[0].pool, len(target_kvs)
    block_table, context_lens = pool.prepare_block_tables([kv.sequence for kv in target_kvs])
    device = block_table.device
    layout = TreeLayout(
        block_table,
        context_lens - 1,
        torch.arange(count + 1, dtype=torch.int32, device=device),
        torch.ones(count, 1, dtype=torch.int64, device=device),
        max_query_len=1,
    )
    keys, values = pool.k, pool.v
    plan = plan_for(keys[0].dtype, keys[0], layout, group_size)

    def attend(layer: int, query: torch.Tensor) -> torch.Tensor:
        scale = query.shape[-1] ** -0.5
        mixed = tree_attention(query, keys[layer], values[layer], layout, scale, plan)
        return mixed.flatten(1)

    return attend
