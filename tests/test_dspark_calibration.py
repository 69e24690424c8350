"""Calibration: what it measures, that it finds a known distortion, and what a wrong one costs."""

import math

import numpy as np
import pytest

from kernels.runtime import InputError
from lessons.lib.cost import survival_curve
from lessons.lib.draft.dspark_budget import BudgetRule, allocate
from lessons.lib.draft.dspark_calibration import calibration_error, confidences, fit_temperatures


def blocks(count, positions, seed=0):
    """(true chances [n, positions], accepted [n]) of random blocks."""
    rng = np.random.default_rng(seed)
    chances = rng.beta(2.5, 1.0, (count, positions))
    kept = (rng.random((count, positions)) < chances).cumprod(axis=1)
    return chances, kept.sum(axis=1)


def logits_of(chances, temperatures):
    """What a head says whose confidences need these temperatures to be true."""
    return np.log(chances / (1 - chances)) * np.asarray(temperatures)


def product_error(logits, accepted, temperatures):
    """Mean calibration error of the survivals over the positions."""
    survivals = confidences(logits, temperatures).cumprod(axis=1)
    columns = enumerate(survivals.T)
    return np.mean([calibration_error(column, accepted > k) for k, column in columns])


def test_calibration_error_by_hand():
    probs = np.array([0.05, 0.05, 0.95, 0.95])
    outcomes = np.array([False, True, True, True])
    assert calibration_error(probs, outcomes) == pytest.approx((2 * 0.45 + 2 * 0.05) / 4)
    assert calibration_error(np.array([1.0]), np.array([True])) == 0


def test_the_fit_finds_the_temperatures_of_a_distorted_head():
    true = [2.0, 0.5, 3.0, 1.0]
    chances, accepted = blocks(20_000, len(true))
    found = fit_temperatures(logits_of(chances, true), accepted)
    assert found == pytest.approx(true, rel=0.15)


def test_the_fit_lowers_the_error_on_blocks_it_has_not_seen():
    distortion = [2.5] * 5
    chances, accepted = blocks(10_000, 5)
    fitted = fit_temperatures(logits_of(chances, distortion), accepted)
    chances, accepted = blocks(10_000, 5, seed=1)
    logits = logits_of(chances, distortion)
    before = product_error(logits, accepted, [1.0] * 5)
    assert before > 0.05
    assert product_error(logits, accepted, fitted) < before / 3


def test_a_head_that_is_right_is_left_alone():
    chances, accepted = blocks(20_000, 3)
    assert fit_temperatures(logits_of(chances, [1.0] * 3), accepted) == pytest.approx(
        [1.0] * 3, rel=0.1
    )


def test_each_temperature_belongs_to_the_product_before_it():
    """The first error of two positions fitted alone would be carried on and doubled."""
    chances, accepted = blocks(20_000, 2)
    logits = logits_of(chances, [1.0, 1.0]) + np.array([0.8, 0.0])
    first, second = fit_temperatures(logits, accepted)
    alone = fit_temperatures(logits[:, 1:], (accepted > 1).astype(int))[0]
    together = product_error(logits, accepted, [first, second])
    assert together < product_error(logits, accepted, [first, alone])


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(InputError, match="calibration"):
        fit_temperatures(np.zeros((3, 2)), np.zeros(4, dtype=int))
    with pytest.raises(InputError, match="at least one block"):
        fit_temperatures(np.zeros((0, 2)), np.zeros(0, dtype=int))


# --- what it is for ------------------------------------------------------------------------------
RULE = BudgetRule(lambda _batch, rows: 5 + 8 * math.ceil(rows / 8))  # buckets of eight rows


def throughput(said, chances):
    """Tokens per ms of batches of four planned by what is said and paid by what is true."""
    tokens = time = 0.0
    for start in range(0, len(said), 4):
        batch = slice(start, start + 4)
        curves = [survival_curve(block) for block in said[batch].tolist()]
        lengths = allocate(curves, RULE.best_budget(curves))
        for block, length in zip(chances[batch].tolist(), lengths, strict=True):
            tokens += 1 + sum(survival_curve(block)[:length])
        time += RULE.step_ms(4, 4 + sum(lengths))
    return tokens / time


def test_over_confidence_costs_throughput_and_calibration_gives_it_back():
    chances, accepted = blocks(4000, 7)
    boasting = chances**0.5
    logits = np.log(boasting / (1 - boasting))
    calibrated = confidences(logits, fit_temperatures(logits, accepted))
    best, worst = throughput(chances, chances), throughput(boasting, chances)
    assert worst < 0.96 * best
    assert throughput(calibrated, chances) > worst + 0.5 * (best - worst)
