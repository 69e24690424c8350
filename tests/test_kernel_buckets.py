"""The choice of buckets against every other choice there is."""

import itertools
import random

import pytest

from kernels.graph_buckets import choose_buckets, largest_waste, measure_staircase

STAIRCASE = {size: 1.0 + (size - 1) // 16 for size in range(1, 65)}  # a step every 16 rows


def test_one_bucket_a_step_and_what_it_costs():
    exact = choose_buckets(STAIRCASE, 0.0, {size: 100 * size for size in STAIRCASE})
    assert exact == ((16, 32, 48, 64), 0.0, 16_000)
    few = choose_buckets(STAIRCASE, 1.0)
    assert few.sizes == (32, 64) and few.largest_waste == 1.0 and few.num_bytes == 0
    assert choose_buckets({1: 1.0, 2: 1.05, 4: 1.1}, 0.11).sizes == (4,)


def total(cost, chosen):
    return sum(cost[min(b for b in chosen if b >= size)] for size in cost)


@pytest.mark.parametrize("seed", range(30))
def test_no_other_choice_is_better(seed):
    """Costs of any shape, also such that fall: all subsets with the largest size are tried."""
    rng = random.Random(seed)
    sizes = sorted(rng.sample(range(1, 40), 8))
    cost = {size: rng.uniform(0.5, 2) + size * rng.choice([0, 0.1]) for size in sizes}
    max_waste = rng.choice([0.0, 0.1, 0.5, 1.5])
    found = choose_buckets(cost, max_waste)
    allowed = [
        (count, total(cost, (*rest, sizes[-1])))
        for count in range(8)
        for rest in itertools.combinations(sizes[:-1], count)
        if largest_waste(cost, (*rest, sizes[-1])) <= max_waste + 1e-12
    ]
    best_count, best_total = min(allowed)
    assert len(found.sizes) == best_count + 1
    assert total(cost, found.sizes) == pytest.approx(best_total)
    assert found.largest_waste == largest_waste(cost, found.sizes) <= max_waste + 1e-12


def test_bad_input_is_refused():
    for cost, bound in [({}, 0.1), ({1: 0.0}, 0.1), ({1: 1.0}, -0.1)]:
        with pytest.raises(ValueError, match="at least one size, costs above 0"):
            choose_buckets(cost, bound)


def test_sizes_take_turns_and_the_first_turn_is_not_counted():
    calls = []
    found = measure_staircase(calls.append, [1, 4, 2], repeats=3)
    assert calls == [1, 4, 2] * 4
    assert list(found) == [1, 4, 2] and all(ms > 0 for ms in found.values())
