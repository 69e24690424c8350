"""What goes into one forward: the rows of all requests, end to end, and where their KV lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernels.kv_pool import KVPool, SequenceKV
from kernels.tree_layout import TreeLayout
from lessons.lib.tree import DraftTree, batch_trees


@dataclass(frozen=True)
class ForwardBatch:
    """One forward over the rows (tree nodes, chunk tokens) of a ragged batch.

    token_ids, positions, slot_mapping [total_rows] int64: what a row is, its place in the text,
    where its KV goes. logit_rows [n] int64: rows whose logits are wanted, None for all.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    layout: TreeLayout
    logit_rows: torch.Tensor | None


def prepare_batch(
    pool: KVPool,
    rows: Sequence[tuple[SequenceKV, DraftTree]],
    logit_counts: Sequence[int] | None = None,
) -> ForwardBatch:
    """Reserve slots for every tree behind its sequence and lay the batch out.

    logit_counts: of each tree's nodes the last so many are scored; None scores all.
    After the forward the caller commits or rolls back every sequence. Must hold: the pool has the
    pages (the scheduler sees to it), else OutOfPages comes with some sequences reserved.
    """
    slots = [pool.reserve_tree(kv, tree.num_nodes) for kv, tree in rows]
    block_table, context_lens = pool.prepare_block_tables([kv for kv, _ in rows])
    device = block_table.device
    trees = batch_trees([tree for _, tree in rows], [kv.length for kv, _ in rows], device)
    layout = TreeLayout(
        block_table, context_lens, trees.qo_indptr, trees.mask_bits, trees.max_query_len
    )
    logit_rows = None
    if logit_counts is not None:
        ends = trees.qo_indptr.tolist()[1:]
        wanted = [
            row
            for end, count in zip(ends, logit_counts, strict=True)
            for row in range(end - count, end)
        ]
        if len(wanted) < ends[-1]:
            logit_rows = torch.tensor(wanted, dtype=torch.int64, device=device)
    slot_mapping = slots[0] if len(slots) == 1 else torch.cat(slots)
    return ForwardBatch(trees.token_ids, trees.positions, slot_mapping, layout, logit_rows)
