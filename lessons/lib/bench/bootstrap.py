"""How sure a ratio is that was measured in interleaved blocks, and where a curve crosses 1.0.

In a block both sides run right after each other, so that a slow spell of the machine hits both and
cancels in their ratio. The blocks are the sample: figures within one share its weather.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.runtime import InputError

Floats = NDArray[np.float64]

MIN_BLOCKS = 5  # of fewer, most resamples repeat one block and say nothing about spread
NEVER = math.inf


@dataclass(frozen=True)
class Interval:
    """An estimate and the range that holds the truth in a share `level` of all repetitions."""

    estimate: float
    low: float
    high: float
    level: float
    num_blocks: int


def ratio_interval(
    ours: Sequence[float],
    theirs: Sequence[float],
    level: float = 0.95,
    num_resamples: int = 4000,
    seed: int = 0,
) -> Interval:
    """Geometric mean of ours[b] / theirs[b] over blocks b, with a bootstrap-t interval.

    Studentised (Efron and Tibshirani 1993, section 12.5) on the logarithms: with a dozen blocks the
    plain percentile interval is too narrow. InputError for fewer than MIN_BLOCKS blocks.
    """
    logs = _log_ratios(ours, theirs)
    count = len(logs)
    centre, error = float(logs.mean()), _standard_error(logs[None])[0]
    draws = logs[np.random.default_rng(seed).integers(count, size=(num_resamples, count))]
    errors = _standard_error(draws)
    usable = errors > 1e-12 * max(error, 1e-300)  # a resample of one block has no spread
    if error == 0 or not usable.any():
        return Interval(math.exp(centre), math.exp(centre), math.exp(centre), level, count)
    pivots = (draws.mean(axis=1) - centre)[usable] / errors[usable]
    below, above = np.quantile(pivots, [(1 - level) / 2, (1 + level) / 2])
    low, high = centre - above * error, centre - below * error
    return Interval(math.exp(centre), math.exp(low), math.exp(high), level, count)


def median_interval(
    ours: Sequence[float],
    theirs: Sequence[float],
    level: float = 0.95,
    num_resamples: int = 4000,
    seed: int = 0,
) -> Interval:
    """Median of ours[b] / theirs[b] over blocks b, with a percentile bootstrap interval.

    For verdicts: one block in which the machine stood still moves the mean of `ratio_interval`, not
    this. InputError for fewer than MIN_BLOCKS blocks.
    """
    logs = _log_ratios(ours, theirs)
    count = len(logs)
    draws = np.random.default_rng(seed).integers(count, size=(num_resamples, count))
    edges = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(np.median(logs[draws], axis=1), edges)
    return Interval(math.exp(float(np.median(logs))), math.exp(low), math.exp(high), level, count)


@dataclass(frozen=True)
class Crossing:
    """Load at which the speedup falls below 1.0, with its percentile interval.

    0.0 means below 1.0 at every load measured; NEVER (inf) means not up to `measured_to`.
    """

    load: float
    low: float
    high: float
    level: float
    measured_to: float

    def describe(self) -> str:
        """One sentence for a report."""
        if self.load == NEVER and self.low == NEVER:
            return f"no crossing of 1.0 was found up to {self.measured_to:g}"
        interval = f"[{_bound(self.low)}, {_bound(self.high)}] at {self.level:.0%}"
        if self.load == NEVER:
            return (
                f"no crossing of 1.0 up to {self.measured_to:g}, though one may lie in {interval}"
            )
        if self.load == 0:
            return f"below 1.0 from the lowest load on; the crossing lies in {interval}"
        return f"the speedup crosses 1.0 at {self.load:.3g}, {interval}"


def crossing(
    ratios: Mapping[float, Sequence[float]],
    level: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> Crossing:
    """Where the speedup first falls below 1.0 as load grows.

    ratios: {load: paired ratio of each block}. Between loads the logarithm of the speedup is taken
    as a straight line over the logarithm of the load. Blocks are resampled within each load.
    """
    if len(ratios) < 2:
        raise InputError(f"a crossing needs two loads at least, got {len(ratios)}")
    loads = np.array(sorted(ratios), dtype=np.float64)
    logs = [_log_ratios(ratios[load], [1.0] * len(ratios[load])) for load in sorted(ratios)]
    rng = np.random.default_rng(seed)
    means = np.stack(
        [part[rng.integers(len(part), size=(num_resamples, len(part)))].mean(1) for part in logs], 1
    )
    found = np.sort([_crossing_of(loads, row) for row in means])
    edges = [int((num_resamples - 1) * share) for share in ((1 - level) / 2, (1 + level) / 2)]
    point = _crossing_of(loads, np.array([part.mean() for part in logs]))
    return Crossing(point, float(found[edges[0]]), float(found[edges[1]]), level, float(loads[-1]))


def _crossing_of(loads: Floats, curve: Floats) -> float:
    below = np.flatnonzero(curve < 0)
    if not below.size:
        return NEVER
    right = int(below[0])
    if right == 0:
        return 0.0
    share = curve[right - 1] / (curve[right - 1] - curve[right])
    return float(loads[right - 1] * (loads[right] / loads[right - 1]) ** share)


def _bound(load: float) -> str:
    if load == NEVER:
        return "beyond what was measured"
    return "below what was measured" if load == 0 else f"{load:.3g}"


def _log_ratios(ours: Sequence[float], theirs: Sequence[float]) -> Floats:
    if len(ours) != len(theirs):
        raise InputError(f"blocks do not pair up: {len(ours)} against {len(theirs)}")
    if len(ours) < MIN_BLOCKS:
        raise InputError(f"an interval needs {MIN_BLOCKS} blocks at least, got {len(ours)}")
    values = np.array([ours, theirs], dtype=np.float64)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise InputError("ratios need measured values above 0 in every block")
    logs: Floats = np.log(values[0] / values[1])
    return logs


def _standard_error(samples: Floats) -> Floats:
    """Of the mean of each row; [rows, blocks] -> [rows]."""
    error: Floats = samples.std(axis=1, ddof=1) / math.sqrt(samples.shape[1])
    return error
