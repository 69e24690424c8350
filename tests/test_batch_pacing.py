"""Pacing a batch: text stays the target's, and drafting or verification is what was decided."""

import pytest

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.adaptive import AdaptiveDepth, DepthRule
from lessons.lib.draft.dspark_budget import BudgetRule
from lessons.lib.draft.dspark_planner import VerifyMode, VerifyPlanner
from lessons.lib.pacing import Pacing
from tests.batch_kit import assert_expected, make_cases, random_ids, run_all, tiny_engine
from tests.block_kit import BlockCase

DEPTH = 4
STEEP = BudgetRule(lambda _batch, rows: 3.0 + rows)


class Noted:
    """A depth policy that follows a list and notes what it is told."""

    def __init__(self, depths):
        self.depths, self.asked, self.told = list(depths), [], []

    def depth(self, batch):
        self.asked.append(batch)
        return self.depths[len(self.asked) % len(self.depths)]

    def observe(self, rounds, step_ms):
        self.told.append((rounds, step_ms))


def block_cases(count):
    cases = []
    for number in range(count):
        prompt = random_ids(8 + 9 * number, seed=number)
        case = BlockCase(prompt, 20, SamplingParams(), "dspark", DEPTH, number)
        case.expected = tiny_engine().generate(prompt, 20, ignore_eos=True).token_ids
        cases.append(case)
    return cases


def test_a_policy_caps_the_depth_of_every_request_and_hears_what_came_of_it():
    policy = Noted([0, 1, 3])
    outcome, records = run_all(tiny_engine(pacing=Pacing(policy)), block_cases(3))
    assert_expected(outcome)
    assert len(policy.asked) == len(records)
    told = iter(policy.told)
    for step, record in enumerate(records, start=1):
        depth = policy.depths[step % 3]
        rounds = record.rounds.values()
        assert all(r.proposed <= depth for r in rounds)
        if rounds:
            heard, step_ms = next(told)
            assert heard == [(r.proposed, r.accepted) for r in rounds]
            assert step_ms is None if record.prefilled else 0 < step_ms <= record.total_ms
    assert {r.proposed for record in records for r in record.rounds.values()} >= {0, 1, 3}


def test_adaptive_depth_changes_no_token_of_any_chain_drafter():
    rule = DepthRule(num_plain=1, interval=2, num_rest=3)
    policy = AdaptiveDepth({1: (0, 1, 3, 7), 4: (0, 1, 3)}, rule)
    cases = make_cases(6, seed=3, methods=("ngram", "none"))
    outcome, records = run_all(tiny_engine(pacing=Pacing(policy)), cases, every=2)
    assert_expected(outcome)
    assert any(r.proposed for record in records for r in record.rounds.values())


@pytest.mark.parametrize("mode", VerifyMode)
def test_a_planner_changes_no_token_and_saves_rows_in_compact_mode_only(mode):
    planner = VerifyPlanner(STEEP, mode)
    outcome, records = run_all(tiny_engine(pacing=Pacing(verify_planner=planner)), block_cases(3))
    assert_expected(outcome)
    rounds = [r for record in records for r in record.rounds.values()]
    decoding = [record for record in records if not record.prefilled]
    spare = [
        record.num_rows - sum(1 + r.proposed for r in record.rounds.values()) for record in decoding
    ]
    has_short = any(r.proposed < DEPTH for r in rounds[: len(rounds) // 2])
    assert has_short == (mode is not VerifyMode.STATIC)
    assert any(spare) == (mode is VerifyMode.CAP_ACCEPT)
    assert any(r.accepted for r in rounds)


def test_a_drafter_without_confidences_can_only_be_verified_whole():
    planner = VerifyPlanner(STEEP, VerifyMode.STATIC)
    outcome, _ = run_all(
        tiny_engine(pacing=Pacing(verify_planner=planner)), make_cases(1, 0, methods=("trees",))
    )
    assert_expected(outcome)
    (case,) = make_cases(1, seed=0, methods=("trees",))
    engine = tiny_engine(pacing=Pacing(verify_planner=VerifyPlanner(STEEP)))
    case.add_to(engine)
    with pytest.raises(InputError, match="needs confidences"):
        while engine.has_work:
            engine.step()
