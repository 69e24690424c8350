"""The planner: modes, two steps of delay, and the output law by exact enumeration."""

from types import SimpleNamespace

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.cost import survival_curve
from lessons.lib.draft.dspark_budget import BudgetRule, allocate
from lessons.lib.draft.dspark_planner import VerifyLength, VerifyMode, VerifyPlanner
from lessons.lib.verify import verify_sampled
from tests.tree_oracle import enumerate_outcomes

A, B = 0, 1
TARGET = torch.tensor([0.7, 0.3], dtype=torch.float64)
DRAFT = torch.tensor([0.5, 0.5], dtype=torch.float64)
STEPS_PER_MS = {1: 1.0, 2: 0.5, 3: 0.45}
PAPER = BudgetRule(lambda _batch, rows: 1 / STEPS_PER_MS[rows])


# --- the counterexample of the paper's appendix --------------------------------------------------
def first_token_law(choose_length):
    """Law of the first token of a round whose verify length is `choose_length(confidences)`.

    The second confidence is high after A and zero after B: it gives the first draft away.
    """

    def run(dice):
        drafts = [dice.draft(DRAFT, slot) for slot in range(2)]
        confidences = [0.8, 0.9 if drafts[0] == A else 0.0]
        length = choose_length(confidences)
        laws = DRAFT.repeat(length, 1), TARGET.repeat(length + 1, 1)
        return verify_sampled(drafts[:length], *laws, dice.verify, 0).token_ids[0]

    law = enumerate_outcomes(run)
    return [law[A], law[B]]


def test_an_argmax_over_current_confidences_changes_the_law():
    leaky = first_token_law(lambda c: PAPER.best_budget([survival_curve(c)]))
    assert leaky == pytest.approx([0.85, 0.15], abs=1e-12)


def test_the_early_stop_and_the_planner_leave_the_law_alone():
    early = first_token_law(lambda c: PAPER.early_stop_budget([survival_curve(c)]))
    assert early == pytest.approx([0.7, 0.3], abs=1e-12)
    for old in ([0.8, 0.9], [0.8, 0.0], [1.0, 1.0], [0.0, 0.0]):

        def planned(confidences, old=old):
            planner = VerifyPlanner(PAPER)
            for _ in range(2):
                planner.plan({"r": old})
            return planner.plan({"r": confidences})["r"].num_acceptable

        assert first_token_law(planned) == pytest.approx([0.7, 0.3], abs=1e-12)


def batch_law(choose_lengths):
    """Joint law of the first token of two requests that share a budget."""

    def run(dice):
        blocks = [[dice.draft(DRAFT, (r, slot)) for slot in range(2)] for r in range(2)]
        firsts = [block[0] for block in blocks]
        confidences = [[0.8, 0.9 if firsts[0] == A else 0.0], [0.7, 1.0 if firsts[1] == B else 0.1]]
        outcome = []
        lengths = choose_lengths([survival_curve(block) for block in confidences])
        for request, length in enumerate(lengths):
            laws = DRAFT.repeat(length, 1), TARGET.repeat(length + 1, 1)
            drafts = blocks[request][:length]
            tokens = verify_sampled(drafts, *laws, dice.verify, 10 * request).token_ids
            outcome.append(tokens[0])
        return tuple(outcome)

    law = enumerate_outcomes(run)
    return torch.tensor([[law[a, b] for b in (A, B)] for a in (A, B)])


def test_neighbours_that_share_a_budget_stay_independent():
    product = torch.outer(TARGET, TARGET).float()
    for budget in range(5):
        law = batch_law(lambda survivals, budget=budget: allocate(survivals, budget))
        torch.testing.assert_close(law, product, atol=1e-6, rtol=0)
    rule = BudgetRule(lambda _batch, rows: {2: 1.0, 3: 1.6, 4: 1.8, 5: 2.12, 6: 2.3}[rows])
    leaky = batch_law(lambda survivals: allocate(survivals, rule.best_budget(survivals)))
    assert (leaky - product).abs().sum() > 0.05


# --- delay ---------------------------------------------------------------------------------------
SURE, LOST = [1.0, 1.0], [0.0, 0.0]
STEEP = BudgetRule(lambda _batch, rows: 1 + 0.4 * rows)  # worth it for a likely draft only


def budgets(planner, blocks, key="r"):
    return [planner.plan({key: block})[key].num_acceptable for block in blocks]


def test_a_confidence_enters_the_budget_two_steps_later():
    assert budgets(VerifyPlanner(STEEP), [LOST, LOST, SURE, SURE, SURE]) == [2, 2, 0, 0, 2]
    assert budgets(VerifyPlanner(STEEP), [SURE, LOST, SURE, SURE, SURE]) == [2, 2, 2, 0, 2]


def test_a_request_that_takes_another_ones_place_starts_afresh():
    planner, first, second = VerifyPlanner(STEEP), object(), object()
    assert budgets(planner, [LOST] * 3, first) == [2, 2, 0]
    assert budgets(planner, [LOST] * 3, second) == [2, 2, 0]


def test_a_block_may_be_shorter_or_longer_than_it_was():
    planner = VerifyPlanner(STEEP)
    assert budgets(planner, [[1.0, 1.0, 0.0], [1.0], [1.0], [1.0, 1.0, 1.0]]) == [3, 1, 1, 3]


def test_requests_compete_for_one_budget():
    planner = VerifyPlanner(STEEP)
    half = {"sure": SURE, "lost": LOST}
    for _ in range(2):
        planner.plan(half)
    plan = planner.plan(half)
    assert plan == {"sure": VerifyLength(2, 2), "lost": VerifyLength(0, 0)}
    assert planner.plan({}) == {}


# --- modes ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "mode, expected",
    [
        (VerifyMode.STATIC, VerifyLength(2, 2)),
        (VerifyMode.CAP_ACCEPT, VerifyLength(2, 0)),
        (VerifyMode.COMPACT, VerifyLength(0, 0)),
    ],
)
def test_modes_differ_in_what_is_computed_and_what_may_be_accepted(mode, expected):
    planner = VerifyPlanner(STEEP, mode)
    for _ in range(2):
        planner.plan({"r": LOST})
    assert planner.plan({"r": LOST})["r"] == expected


def test_a_drafter_without_confidences_is_refused():
    with pytest.raises(InputError, match="needs confidences"):
        VerifyPlanner(STEEP).plan({"r": None})


def test_the_static_mode_asks_for_no_confidences_and_no_times():
    def step_ms(*_):
        raise AssertionError("asked for a step time")

    planner = VerifyPlanner(SimpleNamespace(lengths=step_ms), VerifyMode.STATIC)
    assert planner.plan({"r": [0.0, 0.0, 0.0]})["r"] == VerifyLength(3, 3)
