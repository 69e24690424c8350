"""Lab 8G: the engine's scheduler with a function over plain data, and what the checks rest on."""

import random
from pathlib import Path

import pytest

from course.render.qmd import parse
from kernels.runtime import InputError
from lessons.lib.checks import lab08g as checks
from lessons.lib.config import SamplingParams
from lessons.lib.draft.dspark_budget import BudgetRule
from lessons.lib.draft.dspark_planner import VerifyPlanner
from lessons.lib.pacing import Pacing
from lessons.lib.plugs.lab08g import AskedRule, CalibratedDrafter, PlannedStep, paced_run
from tests.batch_kit import assert_expected, random_ids, run_all, tiny_engine, tiny_model
from tests.block_kit import BlockCase

DEPTH = 4
COST_MS = checks.staircase(random.Random(3), 40)
RULE = BudgetRule(lambda _batch, rows: COST_MS[rows])
ANSWERS = Path(__file__).parents[1] / "solutions/lab08g/answers.qmd"


def solution():
    names = {}
    exec("import math", names)
    for cell in parse(ANSWERS).cells:
        exec(cell.source, names)
    return names["verify_lengths"]


def by_rule(old, now, _cost_ms):
    return RULE.lengths(old, now)


def block_cases(count):
    cases = []
    for number in range(count):
        prompt = random_ids(8 + 9 * number, seed=number)
        case = BlockCase(prompt, 16, SamplingParams(), "dspark", DEPTH, number)
        case.expected = tiny_engine().generate(prompt, 16, ignore_eos=True).token_ids
        cases.append(case)
    return cases


def test_the_engine_plans_the_same_with_the_answer_as_with_its_own_rule():
    """DSpark's proposer over a random network: real confidences of a drafter that is not trained"""
    rows = []
    for rule in (RULE, AskedRule(solution(), COST_MS)):
        engine = tiny_engine(pacing=Pacing(verify_planner=VerifyPlanner(rule)))
        outcome, records = run_all(engine, block_cases(3))
        assert_expected(outcome)
        rows.append([record.num_rows for record in records])
    assert rows[0] == rows[1] and len(set(rows[0])) > 2


def test_a_paced_run_keeps_the_text_and_computes_what_was_planned():
    prompts = [random_ids(9, seed=1), random_ids(14, seed=2)]
    rule = AskedRule(by_rule, COST_MS)
    run = paced_run(*tiny_model(), prompts, [[0.9] * DEPTH, [0.6] * DEPTH], 24, rule)
    assert run.texts == run.expected and run.rows_agree
    assert sum(step.is_warm for step in run.planned) >= 6
    assert all(run.gain_over(depth, COST_MS) > 0.97 for depth in range(DEPTH + 1))


def test_verifying_all_or_nothing_is_found_worse_where_it_is():
    steep = [0.0, *(1.0 + 2.0 * rows for rows in range(40))]
    prompts = [random_ids(9, seed=1), random_ids(14, seed=2)]
    everything = AskedRule(lambda _old, now, _cost: [len(block) for block in now], steep)
    run = paced_run(*tiny_model(), prompts, [[0.4] * DEPTH] * 2, 12, everything)
    assert run.texts == run.expected and run.gain_over(0, steep) < 0.97
    with pytest.raises(InputError, match="too short"):
        type(run)([], [], [], []).gain_over(0, steep)


@pytest.mark.parametrize("answer", [None, 3, [1], [1, 2, 0], [1.0, 1], [True, 1], [-1, 1], [3, 1]])
def test_what_is_no_length_for_each_request_is_refused(answer):
    rule = AskedRule(lambda *_: answer, COST_MS)
    with pytest.raises(InputError, match="verify lengths"):
        rule.lengths([[0.5, 0.5], [0.5]], [[0.5, 0.5], [0.5]])


def test_the_stand_in_is_calibrated():
    text = list(range(4000))
    drafter = CalibratedDrafter(text, [0.9, 0.5, 0.7], seed=4, vocab=5000)
    drawn = [(n, drafter.propose(text[:n], 3)) for n in range(1, 3990)]
    for place in range(3):
        right = sum(p.token_ids[place] == text[n + place] for n, p in drawn) / len(drawn)
        said = sum(p.confidences[place] for _, p in drawn) / len(drawn)
        assert abs(right - said) < 0.03
    assert drafter.propose(text, 3).token_ids == []


def test_a_new_request_makes_a_step_cold():
    assert PlannedStep([[0.5], [0.9]], [[0.5], [0.9]], [1, 1]).is_warm
    assert not PlannedStep([[0.5], [1.0]], [[0.5], [0.9]], [1, 1]).is_warm


# --- what the checks rest on ---------------------------------------------------------------------
def test_sorted_yields_are_those_of_brute_force():
    rng = random.Random(5)
    for _ in range(60):
        case = checks.random_case(rng, rng.randint(1, 4))
        assert checks.sorted_yields(case.now) == pytest.approx(checks.best_yields(case.now))


def test_the_engines_own_rule_is_best_in_the_eyes_of_the_check():
    rng = random.Random(6)
    for _ in range(60):
        case = checks.random_case(rng, rng.randint(1, 4))
        rule = BudgetRule(lambda _batch, rows, case=case: case.cost_ms[rows])
        checks.judge(case, rule.lengths(case.old, case.now), checks.best_yields)


def test_the_law_of_the_papers_counterexample():
    target, draft = (0.7, 0.3), (0.5, 0.5)
    assert checks.first_token_law(target, draft, [2, 0]) == pytest.approx([0.85, 0.15])
    for lengths in ([0, 0], [1, 1], [2, 1]):
        assert checks.first_token_law(target, draft, lengths) == pytest.approx(target)
