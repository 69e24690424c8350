"""The target's KV as a drafter may see it: committed tokens of one request, read where they lie."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernels.kv_pool import KVPool, SequenceKV
from kernels.tree_attention import plan_for, tree_attention
from kernels.tree_layout import TreeLayout

Attend = Callable[[int, torch.Tensor], torch.Tensor]


class TargetKV:
    """For reading only: whoever holds it never writes, reserves or frees. The engine lends it."""

    def __init__(self, pool: KVPool, sequence: SequenceKV) -> None:
        self._pool, self._sequence = pool, sequence

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._sequence.length

    def reader(self, group_size: int) -> Attend:
        """attend(layer, query [1, heads, head_dim], turned) -> [1, heads * head_dim]: one row that
        sees every committed token. Good until the target runs again; group_size query heads share a
        KV head.

        The kernel knows a prefix and a tree behind it: here the last committed token is the tree.
        """
        block_table, context_lens = self._pool.prepare_block_tables([self._sequence])
        device = block_table.device
        layout = TreeLayout(
            block_table,
            context_lens - 1,
            torch.tensor([0, 1], dtype=torch.int32, device=device),
            torch.ones(1, 1, dtype=torch.int64, device=device),
            max_query_len=1,
        )
        keys, values = self._pool.k, self._pool.v
        plan = plan_for(keys[0].dtype, keys[0], layout, group_size)

        def attend(layer: int, query: torch.Tensor) -> torch.Tensor:
            scale = query.shape[-1] ** -0.5
            mixed = tree_attention(query, keys[layer], values[layer], layout, scale, plan)
            return mixed.flatten(1)

        return attend
