"""Lab 8H: the steps of a real run go through graph buckets of a student's choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernels.graphs import Backend, GraphCounters
from kernels.kv_pool import SequenceKV
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.graphed import GraphedForward
from lessons.lib.model.llama import LlamaModel
from lessons.lib.sequence import GenerationResult
from lessons.lib.tree import DraftTree


def rows_of(results: Sequence[GenerationResult]) -> Counter[int]:
    """How often the verify forward of a round had how many rows: the traffic of real rounds."""
    return Counter(1 + record.proposed for result in results for record in result.rounds)


@dataclass(frozen=True)
class Replay:
    """counters: how the steps were served; largest_error: of the logits, relative to the largest
    one, against the forward without graphs."""

    counters: GraphCounters
    largest_error: float


def replay(
    model: LlamaModel,
    token_ids: Sequence[int],
    steps: Sequence[int],
    sizes: Sequence[int],
    backend: Backend | None = None,
) -> Replay:
    """Verify chains of `steps[i]` tokens behind a text, through graphs of `sizes` rows.

    Without CUDA the same policy runs on a backend that records and runs again.
    """
    pool, kv = model.new_pool(len(token_ids) + 2 * max(steps) + 64), SequenceKV()
    graphed = GraphedForward(model, pool, max_requests=1, backend=backend)
    graphed.use(sizes)
    model.forward(prepare_batch(pool, [(kv, DraftTree.chain(token_ids))], [0]), pool)
    pool.commit(kv, len(token_ids))
    worst = 0.0
    for number, num_rows in enumerate(steps):
        chain = [(7 * number + 3 * row) % model.config.vocab_size for row in range(num_rows)]
        batch = prepare_batch(pool, [(kv, DraftTree.chain(chain))])
        with torch.inference_mode():
            logits = graphed(batch)[0].clone()
            plain = model.forward(batch, pool)
        pool.commit(kv, 0)
        worst = max(worst, float((logits - plain).abs().max() / plain.abs().max()))
    return Replay(graphed.counters, worst)
