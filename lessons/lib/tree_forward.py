"""One draft tree behind one text, outside the engine: what a check or a lesson looks at."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernels.kv_pool import SequenceKV
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.llama import LlamaModel
from lessons.lib.tree import DraftTree


def tree_logits(model: LlamaModel, context_ids: Sequence[int], tree: DraftTree) -> torch.Tensor:
    """Logits [num_nodes, vocab] of the nodes of `tree` behind the context, in one forward.

    The context may be empty; its KV is written first, by a forward of its own.
    """
    pool, kv = model.new_pool(len(context_ids) + tree.num_nodes), SequenceKV()
    if context_ids:
        model.forward(prepare_batch(pool, [(kv, DraftTree.chain(context_ids))], [0]), pool)
        pool.commit(kv, len(context_ids))
    return model.forward(prepare_batch(pool, [(kv, tree)]), pool)
