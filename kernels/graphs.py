"""CUDA graphs for steps whose shapes vary: capture a few shapes, pad to the next one, replay.

A graph is a recording: replayed, it runs the same kernels with the same grids on the same
addresses. So its key must hold everything that a launch depends on. A key that only counts tokens
mixes up 192 requests of 1 token with 32 of 6: as many rows, another grid (sglang issue 34384).

GraphBuckets owns the recordings and their input buffers. The caller owns the meaning of the
inputs: `allocate` says what buffers a bucket has, `padding` what makes a row of them inert.
Without CUDA the same policy and the same counters run on a backend that records and re-runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]
LAST = "last"  # padding: repeat the last value, as an index pointer of empty requests does


class GraphKey(NamedTuple):
    """What the launches of a step depend on.

    num_requests, query_len (most rows of one request) and max_pages (width of the block table) may
    be padded up; `fixed` holds what must be equal: which step, dtype, number of splits, mask words.
    """

    num_requests: int
    query_len: int
    max_pages: int
    fixed: tuple[object, ...] = ()

    def fits(self, bucket: GraphKey) -> bool:
        """Whether a step of this key can run in a graph of `bucket`."""
        return self.fixed == bucket.fixed and all(
            mine <= theirs for mine, theirs in zip(self[:3], bucket[:3], strict=True)
        )


class Recording(NamedTuple):
    """One captured graph: `replay()` reads `inputs` and writes `outputs`, at fixed addresses."""

    inputs: Tensors
    outputs: Tensors
    replay: Callable[[], None]
    num_bytes: int


class Backend(Protocol):
    """How a step is captured."""

    def capture(self, run: Callable[[Tensors], Tensors], inputs: Tensors) -> Recording:
        """Record `run(inputs)`. `inputs` hold inert values."""
        ...


class CudaBackend:
    """Real graphs, which share one memory pool: only one of them runs at a time."""

    def __init__(self) -> None:
        self._pool: Any = None

    def capture(self, run: Callable[[Tensors], Tensors], inputs: Tensors) -> Recording:
        """Runs the step on a side stream first, so that nothing is compiled during capture."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                run(inputs)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        before = torch.cuda.memory_reserved()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            outputs = run(inputs)
        self._pool = self._pool or graph.pool()
        grown = max(torch.cuda.memory_reserved() - before, 0)
        return Recording(inputs, outputs, graph.replay, _num_bytes(inputs) + grown)


class RecordingBackend:
    """For machines without CUDA: a replay runs the step again on the fixed inputs."""

    def capture(self, run: Callable[[Tensors], Tensors], inputs: Tensors) -> Recording:
        """Outputs keep their addresses, as those of a graph do."""
        outputs = {name: tensor.clone() for name, tensor in run(inputs).items()}

        def replay() -> None:
            for name, tensor in run(inputs).items():
                outputs[name].copy_(tensor)

        return Recording(inputs, outputs, replay, _num_bytes(inputs) + _num_bytes(outputs))


@dataclass
class GraphCounters:
    """How steps were served. Each step is exactly one of hit, padded and eager."""

    hit: int = 0  # replayed in a bucket of its own key
    padded: int = 0  # replayed in a larger bucket
    miss: int = 0  # captured first: one of the above follows
    eager: int = 0  # no bucket fits, or its recording passed the memory bound and was dropped
    captured_bytes: int = 0
    by_bucket: dict[GraphKey, int] = field(default_factory=dict)


class GraphBuckets:
    """Serves `run(inputs) -> outputs` through the cheapest bucket that fits.

    run         the step: dict of tensors in, dict of tensors out; no host-device wait inside
    allocate    bucket -> its input buffers, at the bucket's full shapes
    buckets     keys that may be captured, in the order of cost (cheapest first)
    padding     input name -> fill value of the rows behind the real ones (default 0), or LAST
    max_bytes   bound of all recordings together; what would pass it runs eagerly
    """

    def __init__(
        self,
        run: Callable[[Tensors], Tensors],
        allocate: Callable[[GraphKey], Tensors],
        buckets: Sequence[GraphKey],
        padding: Mapping[str, int | str] | None = None,
        max_bytes: int = 1 << 30,
        backend: Backend | None = None,
    ):
        if len(set(buckets)) < len(buckets):
            raise ValueError(f"graph buckets: {list(buckets)} name a key twice")
        self.counters = GraphCounters()
        self._run, self._allocate, self._buckets = run, allocate, list(buckets)
        self._padding, self._max_bytes = dict(padding or {}), max_bytes
        is_cuda = torch.cuda.is_available()
        self._backend = backend or (CudaBackend() if is_cuda else RecordingBackend())
        self._recordings: dict[GraphKey, Recording] = {}
        self._refused: set[GraphKey] = set()

    def __call__(self, key: GraphKey, inputs: Tensors) -> Tensors:
        """Outputs of the step; those of a graph are valid until its next call and keep the
        bucket's shapes, real rows first.

        Raises ValueError for inputs that are not those of the bucket.
        """
        bucket = next((b for b in self._buckets if key.fits(b) and b not in self._refused), None)
        recording = self._recording(bucket) if bucket else None
        if bucket is None or recording is None:
            self.counters.eager += 1
            return self._run(inputs)
        self._fill(recording.inputs, inputs)
        recording.replay()
        self.counters.hit += key == bucket
        self.counters.padded += key != bucket
        self.counters.by_bucket[bucket] = self.counters.by_bucket.get(bucket, 0) + 1
        return recording.outputs

    def num_bytes(self, bucket: GraphKey) -> int:
        """What the bucket's recording holds; 0 where there is none."""
        recording = self._recordings.get(bucket)
        return recording.num_bytes if recording else 0

    def _recording(self, bucket: GraphKey) -> Recording | None:
        """The bucket's graph, captured now if need be; None where memory does not allow it."""
        if bucket in self._recordings:
            return self._recordings[bucket]
        buffers = self._allocate(bucket)
        for name, buffer in buffers.items():
            buffer.fill_(self._inert(name))
        recording = self._backend.capture(self._run, buffers)
        if self.counters.captured_bytes + recording.num_bytes > self._max_bytes:
            self._refused.add(bucket)
            return None
        self.counters.miss += 1
        self.counters.captured_bytes += recording.num_bytes
        self._recordings[bucket] = recording
        return recording

    def _inert(self, name: str) -> int:
        value = self._padding.get(name, 0)
        return value if isinstance(value, int) else 0

    def _fill(self, buffers: Tensors, inputs: Tensors) -> None:
        """Every buffer is written over its whole length, so nothing of the last step is left."""
        if buffers.keys() != inputs.keys():
            raise ValueError(f"graph inputs: {sorted(inputs)} given, {sorted(buffers)} captured")
        for name, buffer in buffers.items():
            given = inputs[name]
            if given.dtype != buffer.dtype or given.dim() != buffer.dim():
                raise ValueError(f"graph input {name}: {given.dtype} of {given.dim()} dimensions")
            if any(mine > its for mine, its in zip(given.shape, buffer.shape, strict=True)):
                raise ValueError(
                    f"graph input {name}: shape {tuple(given.shape)} does not fit "
                    f"{tuple(buffer.shape)}; the key claims less than the step needs"
                )
            if given.shape != buffer.shape:
                if self._padding.get(name) == LAST:
                    buffer.copy_(given[-1:].expand_as(buffer))
                else:
                    buffer.fill_(self._inert(name))
            buffer[tuple(slice(0, size) for size in given.shape)].copy_(given)


def _num_bytes(tensors: Tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
