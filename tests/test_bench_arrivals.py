"""Arrival schedules: the laws they claim, with tests that wrong generators fail."""

import math

import numpy as np
import pytest

from kernels.runtime import InputError
from lessons.lib.bench.arrivals import ClosedLoop, OpenLoop

RATE, COUNT = 4.0, 20_000
ALPHA_KS = 1.95  # critical value of sqrt(n) D at a level of 0.001
SIGMAS = 4.0

# Distribution functions of the Gamma law with mean 1 / rate that have a closed form.
CDF = {
    0.5: lambda x: np.array([math.erf(math.sqrt(value * RATE / 2)) for value in x]),
    1.0: lambda x: 1 - np.exp(-RATE * x),
    2.0: lambda x: 1 - (1 + 2 * RATE * x) * np.exp(-2 * RATE * x),
}


def gaps_of(times):
    return np.diff(times, prepend=0.0)


def complaints(times, burstiness):
    """Which properties of the law the schedule breaks, at about four standard errors each."""
    gaps = gaps_of(times)
    cv = 1 / math.sqrt(burstiness)
    found = []
    if abs(gaps.mean() * RATE - 1) > SIGMAS * cv / math.sqrt(COUNT):
        found.append("mean")
    ordered = np.sort(gaps)
    ranks = np.arange(1, COUNT + 1) / COUNT
    distance = np.abs(CDF[burstiness](ordered) - ranks).max()
    if math.sqrt(COUNT) * distance > ALPHA_KS:
        found.append("law")
    if abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) > SIGMAS / math.sqrt(COUNT):
        found.append("independence")
    return found


@pytest.mark.parametrize("burstiness", CDF)
@pytest.mark.parametrize("seed", range(3))
def test_gaps_follow_their_law(burstiness, seed):
    assert complaints(OpenLoop(RATE, burstiness).times(COUNT, seed), burstiness) == []


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("gaps", "burstiness", "complaint"),
    [
        (rng().gamma(2.0, 1 / RATE, COUNT), 2.0, "mean"),  # scale not divided by the shape
        (rng().gamma(0.5, 2 / RATE, COUNT), 2.0, "law"),  # shape and its inverse mixed up
        (rng().uniform(0, 2 / RATE, COUNT), 1.0, "law"),
        (rng().lognormal(math.log(1 / RATE) - 0.3466, 0.8326, COUNT), 1.0, "law"),  # mean, cv right
        (np.sort(rng().exponential(1 / RATE, COUNT)), 1.0, "independence"),
        (np.repeat(rng().exponential(1 / RATE, COUNT // 2), 2), 1.0, "independence"),
        (rng().exponential(1.05 / RATE, COUNT), 1.0, "mean"),
    ],
)
def test_wrong_generators_are_noticed(gaps, burstiness, complaint):
    assert complaint in complaints(np.cumsum(gaps), burstiness)


def test_constant_gaps():
    assert OpenLoop(2.0, math.inf).times(4, seed=7) == pytest.approx([0.5, 1.0, 1.5, 2.0])


def test_a_seed_fixes_the_schedule_and_another_changes_it():
    arrivals = OpenLoop(RATE, 0.5)
    first, again, other = (arrivals.times(50, seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert not np.isclose(first, other).any()


def test_schedule_is_ordered_and_a_longer_one_starts_the_same():
    arrivals = OpenLoop(RATE)
    short, long = arrivals.times(10, 0), arrivals.times(30, 0)
    assert (np.diff(long) >= 0).all() and long[0] > 0
    assert (long[:10] == short).all()


def test_total_varies_as_a_poisson_stream_does():
    ends = [OpenLoop(RATE).times(100, seed)[-1] for seed in range(400)]
    assert np.std(ends) == pytest.approx(math.sqrt(100) / RATE, rel=0.15)


def test_names():
    laws = [OpenLoop(1.0, burstiness).law for burstiness in (1.0, 0.3, math.inf)]
    assert laws == ["poisson", "gamma", "constant"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: OpenLoop(0.0),
        lambda: OpenLoop(math.inf),
        lambda: OpenLoop(float("nan")),
        lambda: OpenLoop(1.0, 0.0),
        lambda: OpenLoop(1.0).times(0, 0),
        lambda: ClosedLoop(0),
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(InputError):
        wrong()
