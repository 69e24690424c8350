"""Speedup over load: drawn curves, and where each first falls below 1, found by halving."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from lessons.lib.checks.asking import Rejected


def draw_curve(rng: random.Random, number: int) -> tuple[list[int], list[list[float]]]:
    """Speedups by block at each load. By `number`: never below 1, below from the start, below 1
    twice, else falling; now and then exactly 1 at the first load."""
    kind = ("never", "at once", "twice", "falls", "falls")[number % 5]
    loads = sorted(rng.sample((1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128), rng.randint(4, 7)))
    count = len(loads)
    edge = rng.randint(1, count - 2)
    signs = [1 if kind == "never" or place < edge else -1 for place in range(count)]
    if kind == "at once":
        signs = [-1] * count
    if kind == "twice":
        signs = [1] + [rng.choice((1, -1)) for _ in range(count - 4)] + [-1, 1, -1]
    blocks = rng.randint(3, 7)
    ratios = [[rng.uniform(0.85, 1.15) for _ in range(blocks)] for _ in loads]
    for row, sign in zip(ratios, signs, strict=True):
        size = rng.uniform(1.18, 1.9) ** sign
        row[:] = [ratio * size for ratio in row]
    if kind == "falls" and number % 2:
        ratios[0] = [1.0] * blocks
    return loads, ratios


def judge_crossing(got: float | None, loads: Sequence[int], ratios: list[list[float]]) -> None:
    """Raise Rejected, in words, unless the curve falls below 1 at this load first."""
    right = crossing_by_halving(loads, [_geometric(row) for row in ratios])
    if _agrees(got, right):
        return
    means = [_geometric(row) for row in ratios]
    sums = [sum(row) / len(row) for row in ratios]
    mistakes = (
        (crossing_by_halving(loads, sums), "the mean of ratios is the geometric one"),
        (crossing_by_halving(loads, [1 / m for m in means]), "it asks where the speedup falls"),
        (_straight(loads, means), "take the logarithm of the load, too, as a straight line"),
        (_first_below(loads, means), "it lies between two loads, where the line meets 1"),
        (_last(loads, means), "where the speedup falls below 1 first, not last"),
    )
    if right is None:
        raise Rejected("with no speedup below 1 there is no crossing: return None")
    if got is None:
        raise Rejected("the speedup does fall below 1 at a load that was measured")
    if right == 0:
        raise Rejected("a speedup below 1 from the lowest load on gives 0.0")
    for wrong, reason in mistakes:
        if _agrees(got, wrong):
            raise Rejected(f"crossing_load: {reason}")
    raise Rejected("crossing_load names another load than the one where the line meets 1")


def _agrees(got: float | None, right: float | None) -> bool:
    if got is None or right is None:
        return got is right
    return math.isclose(got, right, rel_tol=1e-7)


def _geometric(row: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(ratio) for ratio in row) / len(row))


def crossing_by_halving(loads: Sequence[int], speedups: Sequence[float]) -> float | None:
    """0.0 for a curve below 1 from the start, None for one never below 1."""
    if speedups[0] < 1:
        return 0.0
    for i in range(1, len(loads)):
        if speedups[i] < 1:
            return _halve(loads[i - 1], loads[i], speedups[i - 1], speedups[i])
    return None


def _halve(low: float, high: float, above: float, below: float) -> float:
    """Halve the stretch on the log scale until its ends meet; above >= 1 > below."""
    left, right = math.log(low), math.log(high)
    for _ in range(80):
        middle = (left + right) / 2
        share = (middle - math.log(low)) / (math.log(high) - math.log(low))
        if (1 - share) * math.log(above) + share * math.log(below) >= 0:
            left = middle
        else:
            right = middle
    return math.exp(left)


def _straight(loads: Sequence[int], means: Sequence[float]) -> float | None:
    for i in range(1, len(loads)):
        if means[i - 1] >= 1 > means[i]:
            share = math.log(means[i - 1]) / (math.log(means[i - 1]) - math.log(means[i]))
            return loads[i - 1] + share * (loads[i] - loads[i - 1])
    return None


def _first_below(loads: Sequence[int], means: Sequence[float]) -> float | None:
    return next((load for load, mean in zip(loads, means, strict=True) if mean < 1), None)


def _last(loads: Sequence[int], means: Sequence[float]) -> float | None:
    falls = [i for i in range(1, len(loads)) if means[i - 1] >= 1 > means[i]]
    if not falls:
        return None
    i = falls[-1]
    return _halve(loads[i - 1], loads[i], means[i - 1], means[i])
