"""Which shapes to capture: fewer buckets cost memory and capture time less, more pad less.

Padding costs by a staircase, not by rows: a step of 17 rows may cost what one of 32 does, and then
a bucket between them is memory for nothing. So buckets are chosen from measured times.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import NamedTuple


class BucketChoice(NamedTuple):
    """sizes, ascending; largest_waste: the largest share by which a measured size costs more in its
    bucket than alone; num_bytes: what the recordings of the sizes hold together."""

    sizes: tuple[int, ...]
    largest_waste: float
    num_bytes: int


def choose_buckets(
    cost_ms: Mapping[int, float], max_waste: float, num_bytes: Mapping[int, int] | None = None
) -> BucketChoice:
    """Fewest sizes so that no measured size wastes more than `max_waste`; of as many, the cheapest.

    cost_ms maps a size to the time of a step of it. A size is served by the smallest chosen one
    that is not below it; cheapest is the sum over all measured sizes, each served once. Dynamic
    programming over the sizes in ascending order: whatever serves the smaller ones, the largest of
    a group pays for the whole group. Costs need not rise with size; noise may make them fall.
    num_bytes: what each size's recording holds. Raises ValueError for no sizes, a cost that is not
    above 0 or a negative bound.
    """
    if not cost_ms or min(cost_ms.values()) <= 0 or max_waste < 0:
        raise ValueError("give at least one size, costs above 0 and a max_waste of 0 or more")
    sizes = sorted(cost_ms)
    best: list[tuple[int, float, tuple[int, ...]]] = [(0, 0.0, ())]  # [end] serves sizes[:end]
    for end, bucket in enumerate(sizes, start=1):
        options = []
        for start in range(end):
            served = sizes[start:end]
            if all(cost_ms[bucket] <= (1 + max_waste) * cost_ms[size] for size in served):
                count, total, chosen = best[start]
                total += len(served) * cost_ms[bucket]
                options.append((count + 1, total, (*chosen, bucket)))
        best.append(min(options))
    chosen = best[-1][2]
    held = sum((num_bytes or {}).get(size, 0) for size in chosen)
    return BucketChoice(chosen, largest_waste(cost_ms, chosen), held)


def largest_waste(cost_ms: Mapping[int, float], chosen: Sequence[int]) -> float:
    """Largest share by which a measured size costs more in its bucket than alone."""
    return max(
        cost_ms[min(bucket for bucket in chosen if bucket >= size)] / cost_ms[size] - 1
        for size in cost_ms
    )


def measure_staircase(
    run: Callable[[int], object], sizes: Sequence[int], repeats: int
) -> dict[int, float]:
    """Median ms of `run(size)`, which must have ended when it returns. Sizes take turns; the first
    turn, in which graphs are captured, does not count."""
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for turn in range(repeats + 1):
        for size in sizes:
            started = perf_counter()
            run(size)
            if turn:
                times[size].append((perf_counter() - started) * 1e3)
    return {size: statistics.median(values) for size, values in times.items()}
