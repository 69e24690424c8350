"""Step times of a target model as a function of batch and tokens, from measured samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.runtime import InputError

Floats = NDArray[np.float64]
Samples = Mapping[tuple[int, int], float | Sequence[float]]


@dataclass(frozen=True)
class StepProfile:
    """Median ms of a target step over a grid of batch sizes and tokens per request.

    times [batches, tokens] float64 never falls along either axis. Between grid points: as_graphs
    False interpolates linearly on both axes; True rounds both up to the next grid point, because a
    CUDA graph pads the step to a captured shape and its whole cost is paid.
    """

    batches: tuple[int, ...]
    tokens: tuple[int, ...]
    times: Floats
    as_graphs: bool = False

    @classmethod
    def from_samples(cls, samples: Samples, as_graphs: bool = False) -> StepProfile:
        """samples: {(batch, tokens of each request): ms or several ms}; the grid must be full.

        The medians are then made monotone: more work cannot take less time, so what falls is noise.
        """
        if not samples:
            raise InputError("step profile: no samples")
        batches = tuple(sorted({batch for batch, _ in samples}))
        tokens = tuple(sorted({count for _, count in samples}))
        medians = np.array([[_median(samples, b, n) for n in tokens] for b in batches])
        return cls(batches, tokens, make_monotone(medians), as_graphs)

    @classmethod
    def from_ledger(cls, row: Mapping[str, Any]) -> StepProfile:
        """row: {"batches": [...], "tokens": [...], "times_ms": [[ms a count] a batch]}."""
        lines = zip(row["batches"], row["times_ms"], strict=True)
        return cls.from_samples(
            {
                (batch, count): ms
                for batch, line in lines
                for count, ms in zip(row["tokens"], line, strict=True)
            }
        )

    def step_ms(self, batch: int, tokens: float) -> float:
        """One step of `batch` requests with `tokens` rows each. InputError outside the grid."""
        row = _position("batch", self.batches, batch)
        column = _position("tokens", self.tokens, tokens)
        if self.as_graphs:
            return float(self.times[int(np.ceil(row)), int(np.ceil(column))])
        along = [np.interp(column, range(len(self.tokens)), line) for line in self.times]
        return float(np.interp(row, range(len(self.batches)), along))

    def rows_ms(self, batch: int, rows: int) -> float:
        """One step of `batch` requests with `rows` rows in all. How they are shared out was not
        measured: it costs what as many rows shared out evenly do."""
        return self.step_ms(batch, rows / batch)


def make_monotone(values: Floats) -> Floats:
    """The surface closest to `values` (2-D) that falls along neither axis.

    Closest in the largest change of any value: halfway between the largest value at or before a
    point and the smallest at or after it, both of which are monotone.
    """
    before, after = values.copy(), values[::-1, ::-1].copy()
    for axis in (0, 1):
        before = np.maximum.accumulate(before, axis)
        after = np.minimum.accumulate(after, axis)
    return (before + after[::-1, ::-1]) / 2


def _median(samples: Samples, batch: int, tokens: int) -> float:
    if (batch, tokens) not in samples:
        raise InputError(f"step profile: batch {batch} with {tokens} tokens was not measured")
    values = np.atleast_1d(np.asarray(samples[batch, tokens], dtype=np.float64))
    if not (values.size and np.isfinite(values).all() and (values > 0).all()):
        raise InputError(f"step profile: batch {batch} with {tokens} tokens has a time not above 0")
    return float(np.median(values))


def _position(name: str, grid: Sequence[int], value: float) -> float:
    """Where `value` lies on the grid, in grid steps."""
    if not grid[0] <= value <= grid[-1]:
        raise InputError(f"{name} {value} is outside what was measured ({grid[0]} to {grid[-1]})")
    return float(np.interp(value, grid, range(len(grid))))
