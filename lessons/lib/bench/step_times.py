"""What one forward of the target costs by shape: batch size and tokens of each request."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from time import perf_counter

import torch

from kernels.kv_pool import SequenceKV
from kernels.runtime import synchronize
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.llama import LlamaModel
from lessons.lib.tree import DraftTree

PAGE_SIZE = 16


def step_cost(
    model: LlamaModel,
    batch_sizes: Sequence[int],
    num_tokens: Sequence[int],
    context: int = 256,
    repeats: int = 5,
) -> dict[tuple[int, int], float]:
    """Median ms of one forward of [batch, n] tokens behind `context` cached ones: {(batch, n): ms}.
    The cached keys are zeros: the time does not depend on their values."""
    return {
        (batch, count): statistics.median(times)
        for batch in batch_sizes
        for count, times in step_times(model, batch, num_tokens, context, repeats).items()
    }


@torch.inference_mode()
def step_times(
    model: LlamaModel,
    batch: int,
    num_tokens: Sequence[int],
    context: int,
    repeats: int,
    num_scored: int | None = None,
) -> dict[int, list[float]]:
    """ms of each of `repeats` turns, {n: [ms, ...]}; all n take turns, after one untimed turn.
    num_scored: rows of each request that get logits, None for all."""
    scored = None if num_scored is None else [num_scored] * batch
    pool = model.new_pool(batch * (context + max(num_tokens) + PAGE_SIZE), PAGE_SIZE)
    sequences = [SequenceKV() for _ in range(batch)]
    for kv in sequences:
        pool.reserve_tree(kv, context)
        pool.commit(kv, context)
    times: dict[int, list[float]] = {count: [] for count in num_tokens}
    for repeat in range(repeats + 1):
        for count in num_tokens:
            chain = DraftTree.chain([0] * count)
            rows = prepare_batch(pool, [(kv, chain) for kv in sequences], scored)
            synchronize(model.device)
            started = perf_counter()
            model.forward(rows, pool)
            synchronize(model.device)
            elapsed = (perf_counter() - started) * 1e3
            for kv in sequences:
                pool.commit(kv, 0)
            if repeat:
                times[count].append(elapsed)
    return times
