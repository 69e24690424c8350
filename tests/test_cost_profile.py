"""The step-cost table: median, monotone, straight lines or stairs between its points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernels.runtime import InputError
from lessons.lib.cost import RoundModel
from lessons.lib.cost_profile import StepProfile, make_monotone

SAMPLES = {(1, 1): [10, 11, 90], (1, 4): [12], (8, 1): 16.0, (8, 4): [30, 20, 40]}


def test_medians_and_straight_lines_between():
    profile = StepProfile.from_samples(SAMPLES)
    assert profile.step_ms(1, 1) == 11 and profile.step_ms(8, 4) == 30
    assert profile.step_ms(1, 2) == pytest.approx(11 + 1 / 3)
    assert profile.step_ms(3, 1) == pytest.approx(11 + 5 * 2 / 7)
    assert profile.step_ms(3, 2) == pytest.approx(
        (11 + 1 / 3) + ((16 + 14 / 3) - (11 + 1 / 3)) * 2 / 7
    )


def test_graphs_pay_for_the_whole_bucket():
    profile = StepProfile.from_samples(SAMPLES, as_graphs=True)
    assert profile.step_ms(1, 2) == profile.step_ms(1, 4) == 12
    assert profile.step_ms(2, 1) == 16
    assert profile.step_ms(2, 3) == 30


@given(
    arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.floats(1, 9))
)
def test_monotone_and_no_further_away_than_needed(values):
    fitted = make_monotone(values)
    assert (np.diff(fitted, axis=0) >= -1e-12).all() and (np.diff(fitted, axis=1) >= -1e-12).all()
    rows, columns = values.shape
    points = [(i, j) for i in range(rows) for j in range(columns)]
    falls = [values[a] - values[b] for a in points for b in points if a[0] <= b[0] and a[1] <= b[1]]
    # Two ordered points that fall by f must move together by at least f / 2.
    assert np.abs(fitted - values).max() == pytest.approx(max(0.0, max(falls)) / 2, abs=1e-12)


def test_what_is_monotone_already_stays():
    values = np.array([[1.0, 2.0, 2.0], [1.5, 2.0, 7.0]])
    assert (make_monotone(values) == values).all()


def test_feeds_the_round_model():
    profile = StepProfile.from_samples({(1, n): 10.0 if n < 5 else 18.0 for n in range(1, 9)})
    model = RoundModel([0.9**k for k in range(1, 8)], lambda b, d: 0.1 * d, profile.step_ms)
    assert model.best_depth(1) == 3


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({}, "no samples"),
        ({(1, 1): 1.0, (2, 2): 2.0}, "batch 1 with 2 tokens was not measured"),
        ({(1, 1): [1.0, 0.0]}, "batch 1 with 1 tokens has a time not above 0"),
        ({(1, 1): []}, "not above 0"),
        ({(1, 1): [float("nan")]}, "not above 0"),
    ],
)
def test_bad_tables_are_refused(samples, message):
    with pytest.raises(InputError, match=message):
        StepProfile.from_samples(samples)


@pytest.mark.parametrize(("batch", "tokens"), [(0, 1), (9, 1), (1, 5)])
def test_nothing_is_extrapolated(batch, tokens):
    with pytest.raises(InputError, match="outside what was measured"):
        StepProfile.from_samples(SAMPLES).step_ms(batch, tokens)
