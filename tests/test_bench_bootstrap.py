"""Intervals that cover the truth as often as they say, shown by repeating the experiment."""

import math

import numpy as np
import pytest

from kernels.runtime import InputError
from lessons.lib.bench.bootstrap import NEVER, crossing, median_interval, ratio_interval

TRUTH, LEVEL, REPETITIONS = 1.3, 0.95, 400


def blocks(rng, count, noise=0.05, drift=0.3, skewed=False):
    """(ours, theirs): one weather for both in a block, own noise on each."""
    weather = np.exp(rng.normal(0, drift, count))
    own = (
        rng.gamma(1 / noise**2, noise**2, (2, count))
        if skewed
        else np.exp(rng.normal(0, noise, (2, count)))
    )
    return TRUTH * weather * own[0], weather * own[1]


def coverage(interval_of, count, **options):
    rng = np.random.default_rng(count)
    hits = [
        interval.low <= TRUTH <= interval.high
        for interval in (interval_of(*blocks(rng, count, **options)) for _ in range(REPETITIONS))
    ]
    return np.mean(hits)


def bootstrap(ours, theirs):
    return ratio_interval(ours, theirs, LEVEL, num_resamples=800)


# A share of 400 has a standard error of 1.1 points at 95 %: four of them to either side.
@pytest.mark.parametrize("count", [6, 12, 30])
@pytest.mark.parametrize("skewed", [False, True])
def test_intervals_cover_the_truth_as_often_as_they_say(count, skewed):
    noise = 0.3 if skewed else 0.05
    assert coverage(bootstrap, count, skewed=skewed, noise=noise) == pytest.approx(LEVEL, abs=0.044)


def test_a_percentile_interval_of_six_blocks_would_be_too_narrow():
    class Plain:
        def __init__(self, ours, theirs):
            logs = np.log(ours / theirs)
            draws = logs[np.random.default_rng(0).integers(len(logs), size=(800, len(logs)))]
            self.low, self.high = np.exp(np.quantile(draws.mean(1), [0.025, 0.975]))

    assert coverage(Plain, 6) < LEVEL - 0.044


def test_pairing_takes_the_weather_out():
    ours, theirs = blocks(np.random.default_rng(0), 20)
    paired = ratio_interval(ours, theirs)
    unpaired = ratio_interval(ours, np.random.default_rng(1).permutation(theirs))
    assert paired.high / paired.low < 1.1 < unpaired.high / unpaired.low


def test_estimate_is_the_geometric_mean_and_swapping_sides_inverts_it():
    ours, theirs = [2.0, 4.0, 2.0, 4.0, 3.0], [1.0, 1.0, 2.0, 2.0, 3.0]
    there, back = ratio_interval(ours, theirs), ratio_interval(theirs, ours)
    assert there.estimate == pytest.approx((2 * 4 * 1 * 2 * 1) ** 0.2)
    assert there.low < there.estimate < there.high
    for mine, other in (("estimate", "estimate"), ("low", "high"), ("high", "low")):
        assert getattr(there, mine) == pytest.approx(1 / getattr(back, other))


def test_equal_blocks_have_no_spread_and_a_seed_fixes_the_rest():
    flat = ratio_interval([2.0] * 5, [1.0] * 5)
    assert flat.low == flat.estimate == flat.high == pytest.approx(2.0)
    ours, theirs = blocks(np.random.default_rng(0), 8)
    assert ratio_interval(ours, theirs, seed=1) == ratio_interval(ours, theirs, seed=1)
    assert ratio_interval(ours, theirs, seed=1) != ratio_interval(ours, theirs, seed=2)


def curve(loads, true_crossing, rng, noise=0.02, count=10):
    """log speedup = 0.3 * log2(crossing / load): a straight line over the logarithm of the load."""
    mean = {load: 0.3 * math.log2(true_crossing / load) for load in loads}
    return {load: np.exp(mean[load] + rng.normal(0, noise, count)) for load in loads}


def test_crossing_is_found_and_its_interval_covers():
    rng = np.random.default_rng(0)
    found = [crossing(curve((1, 2, 4, 8, 16), 5.0, rng), num_resamples=300) for _ in range(200)]
    assert np.median([item.load for item in found]) == pytest.approx(5.0, rel=0.02)
    hits = np.mean([item.low <= 5.0 <= item.high for item in found])
    assert 0.86 < hits <= 1.0  # percentile interval of ten blocks: 92 % expected
    assert np.median([item.high / item.low for item in found]) < 1.2
    assert "crosses 1.0 at" in found[0].describe()


def test_no_crossing_says_how_far_it_looked():
    rng = np.random.default_rng(0)
    above = crossing(curve((1, 2, 4), 100.0, rng))
    assert above.load == above.low == above.high == NEVER
    assert above.describe() == "no crossing of 1.0 was found up to 4"
    below = crossing(curve((4, 8, 16), 1.0, rng))
    assert below.load == 0.0 and "from the lowest load on" in below.describe()
    unsure = crossing(curve((1, 2, 4), 4.05, rng, noise=0.2))
    assert unsure.high == NEVER and "beyond what was measured" in unsure.describe()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: ratio_interval([1.0] * 4, [1.0] * 4), "5 blocks at least"),
        (lambda: ratio_interval([1.0] * 6, [1.0] * 5), "do not pair up"),
        (lambda: ratio_interval([1.0] * 5, [1.0] * 4 + [0.0]), "above 0"),
        (lambda: crossing({1.0: [1.0] * 5}), "two loads"),
    ],
)
def test_what_cannot_be_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        wrong()


@pytest.mark.parametrize(("level", "least", "most"), [(0.95, 0.91, 0.97), (0.5, 0.42, 0.62)])
def test_the_median_interval_holds_the_median_about_as_often_as_it_says(level, least, most):
    """A percentile interval of twelve pairs is a little too narrow: 0.935 for 0.95."""
    rng = np.random.default_rng(0)
    hits, runs = 0, 600
    for _ in range(runs):
        ratios = 1.5 * np.exp(rng.standard_t(2, size=12) * 0.2)  # heavy tails: machines stall
        found = median_interval(ratios, np.ones(12), level, num_resamples=500)
        assert found.low <= found.estimate <= found.high and found.num_blocks == 12
        hits += found.low <= 1.5 <= found.high
    assert least <= hits / runs <= most


def test_one_stall_does_not_move_the_median_interval():
    stalled = median_interval([1.5] * 9 + [0.01], [1.0] * 10)
    assert (stalled.low, stalled.high) == pytest.approx((1.5, 1.5))
