"""DSpark's budget: best by brute force, shared out without a look ahead."""

import itertools
import random

import pytest

from kernels.runtime import InputError
from lessons.lib.cost import survival_curve
from lessons.lib.cost_profile import StepProfile
from lessons.lib.draft.dspark_budget import BudgetRule, allocate


def staircase(rng):
    """Step times with risers at random rows, as captured graphs have them."""
    times, now = [0.0], rng.uniform(1, 5)
    for _ in range(40):
        now += rng.choice([0, 0, 0.01, rng.uniform(0.5, 3)])
        times.append(now)
    return BudgetRule(lambda _batch, rows: times[rows], lambda batch: 0.1 * batch)


def random_survivals(rng, num_requests, max_len):
    return [
        survival_curve([rng.random() ** 0.5 for _ in range(rng.randint(0, max_len))])
        for _ in range(num_requests)
    ]


def yields(rule, survivals, lengths):
    """Tokens per ms of any allocation, counted without sorting anything."""
    tokens = sum(1 + sum(curve[:n]) for curve, n in zip(survivals, lengths, strict=True))
    batch = len(survivals)
    return tokens / (rule.draft_ms(batch) + rule.step_ms(batch, batch + sum(lengths)))


@pytest.mark.parametrize("num_requests, max_len", [(1, 8), (2, 7), (3, 5), (4, 4)])
def test_budget_and_allocation_are_the_best_of_all(num_requests, max_len):
    for seed in range(40):
        rng = random.Random(f"{seed} {num_requests}")
        rule, survivals = staircase(rng), random_survivals(rng, num_requests, max_len)
        every = itertools.product(*(range(len(curve) + 1) for curve in survivals))
        best = max(yields(rule, survivals, lengths) for lengths in every)
        lengths = allocate(survivals, rule.best_budget(survivals))
        assert yields(rule, survivals, lengths) == pytest.approx(best, rel=1e-12)


def test_the_early_stop_is_right_on_a_line_and_too_early_on_a_staircase():
    survivals = [survival_curve([0.9, 0.8, 0.6]), survival_curve([0.7, 0.3, 0.2])]
    line = BudgetRule(lambda _batch, rows: 10 + rows)
    assert line.early_stop_budget(survivals) == line.best_budget(survivals) == 4
    stairs = BudgetRule(lambda _batch, rows: 10.0 if rows <= 2 else 15.0)
    assert stairs.early_stop_budget(survivals) == 0
    assert stairs.best_budget(survivals) == 6


def test_the_early_stop_never_beats_the_full_scan():
    is_earlier = 0
    for seed in range(300):
        rng = random.Random(seed)
        rule, survivals = staircase(rng), random_survivals(rng, 3, 6)
        thetas = rule.throughput(survivals)
        early, best = rule.early_stop_budget(survivals), rule.best_budget(survivals)
        assert thetas[early] <= thetas[best] and thetas[best] == max(thetas)
        is_earlier += early < best
    assert is_earlier > 30


def test_flat_step_times_verify_everything_and_steep_ones_nothing():
    survivals = [[0.5, 0.1], [0.3]]
    assert BudgetRule(lambda _batch, _rows: 5.0).best_budget(survivals) == 3
    assert BudgetRule(lambda _batch, rows: float(rows)).best_budget(survivals) == 0


def test_drafting_that_is_paid_anyway_makes_verifying_cheaper():
    def step_ms(_batch, rows):
        return float(rows)

    survivals = [[0.5, 0.3]]
    assert BudgetRule(step_ms).best_budget(survivals) == 0
    assert BudgetRule(step_ms, lambda batch: 4.0 * batch).best_budget(survivals) == 2


def test_a_measured_profile_gives_the_step_times():
    samples = {(b, n): 10 + 0.5 * b * n for b in (1, 2, 4) for n in (1, 4, 8)}
    profile = StepProfile.from_samples(samples)
    assert profile.rows_ms(2, 8) == profile.step_ms(2, 4) == 14
    assert profile.rows_ms(2, 9) == pytest.approx(14.5)
    graphs = StepProfile.from_samples(samples, as_graphs=True)
    assert graphs.rows_ms(2, 9) == graphs.rows_ms(2, 16) == 18
    full_blocks = [survival_curve([0.9] * 7)] * 2
    assert BudgetRule(graphs.rows_ms).best_budget(full_blocks) == 14


# --- sharing out ---------------------------------------------------------------------------------
def test_ties_go_by_position_then_by_request():
    assert allocate([[0.5, 0.5], [0.5, 0.5]], 1) == [1, 0]
    assert allocate([[0.5, 0.5], [0.5, 0.5]], 2) == [1, 1]
    assert allocate([[0.5, 0.5], [0.5, 0.5]], 3) == [2, 1]
    assert allocate([[0.5], [0.6, 0.5]], 2) == [1, 1]


def test_the_budget_is_spent_on_the_likeliest_and_never_exceeded():
    survivals = [[0.9, 0.2], [0.5, 0.4, 0.3], []]
    assert allocate(survivals, 0) == [0, 0, 0]
    assert allocate(survivals, 3) == [1, 2, 0]
    assert allocate(survivals, 99) == [2, 3, 0]


def later_confidences(rng, confidences, request, position):
    """The same confidences but for those of `request` after `position`, with ties of any kind."""
    changed = [list(block) for block in confidences]
    for place in range(position + 1, len(changed[request])):
        changed[request][place] = rng.choice([0.0, 0.5, 1.0, rng.random()])
    return changed


def test_later_confidences_never_change_what_was_admitted():
    """Draft j of a block is admitted or not by what was known before it was drawn: c_1 .. c_j."""
    for trial in range(4000):
        rng = random.Random(trial)
        blocks = [[rng.choice([0.5, 1.0, rng.random()]) for _ in range(5)] for _ in range(3)]
        budget = rng.randint(0, 15)
        request, position = rng.randrange(3), rng.randrange(5)
        lengths = allocate([survival_curve(block) for block in blocks], budget)
        changed = later_confidences(rng, blocks, request, position)
        other = allocate([survival_curve(block) for block in changed], budget)
        assert (lengths[request] > position) == (other[request] > position), (trial, lengths, other)


def test_an_argmax_over_current_survivals_does_look_ahead():
    """What the property above would catch: a budget that is chosen with the drafts in view."""
    rule = BudgetRule(lambda _batch, rows: {1: 1.0, 2: 1 / 0.5, 3: 1 / 0.45}[rows])
    assert rule.best_budget([survival_curve([0.8, 0.9])]) == 2
    assert rule.best_budget([survival_curve([0.8, 0.0])]) == 0
    assert rule.early_stop_budget([survival_curve([0.8, 0.9])]) == 0
    assert rule.early_stop_budget([survival_curve([0.8, 0.0])]) == 0


@pytest.mark.parametrize("curve", [[0.5, 0.6], [1.2], [-0.1]])
def test_what_is_no_survival_is_refused(curve):
    with pytest.raises(InputError, match="request 1: survival goes from"):
        allocate([[0.5], curve], 1)
    with pytest.raises(InputError, match="request 1: survival goes from"):
        BudgetRule(lambda _batch, _rows: 1.0).best_budget([[0.5], curve])


def test_a_negative_budget_is_refused():
    with pytest.raises(InputError, match="verify budget"):
        allocate([[0.5]], -1)
