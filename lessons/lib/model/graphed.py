"""The forward through CUDA graphs: decode and verify steps, padded to shapes captured before.

A step of a small batch is hundreds of launches of little work; a graph launches them at once.
Prompt chunks run eagerly: their kernels are long enough to hide a launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import torch

from kernels.graph_buckets import BucketChoice, choose_buckets, measure_staircase
from kernels.graphs import LAST, Backend, GraphBuckets, GraphCounters, GraphKey, Tensors
from kernels.kv_pool import KVPool, SequenceKV
from kernels.runtime import synchronize
from kernels.tree_layout import WORD_BITS, TreeLayout
from lessons.lib.model.batch import ForwardBatch
from lessons.lib.model.llama import LlamaModel

QUERY_LENS = (1, 2, 4, 8, 16, 32, WORD_BITS)  # one word of mask bits
MEASURED_LENS = (*range(1, 9), 12, 16, 24, 32, 48, WORD_BITS)
SMALLEST_TABLE = 16  # pages


@dataclass
class GraphedForward:
    """Runs a model's forward on one pool. Captures lazily; what does not fit runs eagerly.

    The rows of a request are padded to powers of two, until `tune` chooses from measured times.
    `scratch` owns a page whose first slot takes the KV of padding rows: nobody reads it.
    """

    model: LlamaModel
    pool: KVPool
    max_requests: int
    backend: Backend | None = None
    scratch: SequenceKV = field(default_factory=SequenceKV)

    def __post_init__(self) -> None:
        self._scratch_slot = int(self.pool.reserve_tree(self.scratch, 1)[0])
        self.query_lens: Sequence[int] = QUERY_LENS
        self._graphs = self._new_graphs(self._buckets())

    @property
    def counters(self) -> GraphCounters:
        """How steps were served so far."""
        return self._graphs.counters

    def __call__(self, batch: ForwardBatch) -> tuple[torch.Tensor, GraphKey | None]:
        """(logits, bucket): as `LlamaModel.forward`; None where no graph served the step.

        The logits are valid until the next call.
        """
        layout = batch.layout
        if batch.logit_rows is not None or layout.max_query_len > QUERY_LENS[-1]:
            return self.model.forward(batch, self.pool), None
        key = GraphKey(len(layout.context_lens), layout.max_query_len, layout.block_table.shape[1])
        before = dict(self.counters.by_bucket)
        logits = self._graphs(key, self._inputs(batch))["logits"][: len(batch.token_ids)]
        served = self.counters.by_bucket.items() - before.items()
        return logits, next((bucket for bucket, _ in served), None)

    def tune(self, max_waste: float = 0.1, repeats: int = 20) -> BucketChoice:
        """Choose the rows of a request to capture from the times of graphs of one request, so that
        padding costs at most `max_waste`. Recordings made before are dropped."""
        keys = {rows: GraphKey(1, rows, SMALLEST_TABLE) for rows in MEASURED_LENS}
        trial = self._new_graphs(list(keys.values()))

        def run(rows: int) -> None:
            trial(keys[rows], self._allocate(keys[rows]))
            synchronize(self.model.device)

        cost_ms = measure_staircase(run, MEASURED_LENS, repeats)
        num_bytes = {rows: trial.num_bytes(key) for rows, key in keys.items()}
        choice = choose_buckets(cost_ms, max_waste, num_bytes)
        self.use(choice.sizes)
        return choice

    def use(self, query_lens: Sequence[int]) -> None:
        """Capture these numbers of rows of a request, ascending. Recordings are dropped, and steps
        of more rows run eagerly."""
        self.query_lens = query_lens
        self._graphs = self._new_graphs(self._buckets())

    def _new_graphs(self, buckets: list[GraphKey]) -> GraphBuckets:
        padding: dict[str, int | str] = {"slot_mapping": self._scratch_slot, "qo_indptr": LAST}
        return GraphBuckets(self._run, self._allocate, buckets, padding, backend=self.backend)

    def _buckets(self) -> list[GraphKey]:
        """`query_lens`, and powers of two of requests and pages; those of least work first."""
        most_pages = -(-self.model.config.max_context // self.pool.page_size)
        sizes = (
            _powers(1, self.max_requests),
            self.query_lens,
            _powers(SMALLEST_TABLE, most_pages),
        )
        return sorted((GraphKey(*size) for size in product(*sizes)), key=lambda b: (b[0] * b[1], b))

    def _inputs(self, batch: ForwardBatch) -> Tensors:
        layout = batch.layout
        return {
            "token_ids": batch.token_ids,
            "positions": batch.positions,
            "slot_mapping": batch.slot_mapping,
            "block_table": layout.block_table,
            "context_lens": layout.context_lens,
            "qo_indptr": layout.qo_indptr,
            "mask_bits": layout.mask_bits,
            # Only its length counts: it tells the step the bucket's query length.
            "queries": torch.zeros_like(batch.token_ids[: layout.max_query_len]),
        }

    def _allocate(self, bucket: GraphKey) -> Tensors:
        requests, rows = bucket.num_requests, bucket.num_requests * bucket.query_len
        shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "token_ids": ((rows,), torch.int64),
            "positions": ((rows,), torch.int64),
            "slot_mapping": ((rows,), torch.int64),
            "block_table": ((requests, bucket.max_pages), torch.int32),
            "context_lens": ((requests,), torch.int32),
            "qo_indptr": ((requests + 1,), torch.int32),
            "mask_bits": ((rows, 1), torch.int64),
            "queries": ((bucket.query_len,), torch.int64),
        }
        device = self.model.device
        return {
            name: torch.zeros(shape, dtype=dtype, device=device)
            for name, (shape, dtype) in shapes.items()
        }

    def _run(self, inputs: Tensors) -> Tensors:
        layout = TreeLayout(
            inputs["block_table"],
            inputs["context_lens"],
            inputs["qo_indptr"],
            inputs["mask_bits"],
            max_query_len=len(inputs["queries"]),
        )
        batch = ForwardBatch(
            inputs["token_ids"], inputs["positions"], inputs["slot_mapping"], layout, None
        )
        return {"logits": self.model.forward(batch, self.pool)}


def _powers(first: int, last: int) -> list[int]:
    """first, 2 * first, ... up to the first that is at least `last`."""
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(2 * sizes[-1])
    return sizes
