"""The race of Lesson 8: its prompts, its comparison, and who is to blame for a lost race."""

import dataclasses
import random

import pytest
from grader_case import COST, FIGURES, LIMITS, fill_in, grade, submission

from autograder.checks import figures, race
from autograder.checks.race_prompts import copy_request, json_request
from autograder.sandbox.session import Cell, Sandbox
from autograder.speed_decision import Decision
from autograder.speedup import Race, Task
from lessons.lib.bench.workload import load_prompts
from lessons.lib.checks import cost_model
from lessons.lib.checks.asking import Rejected

RIGHT = fill_in("right/cost_horner")
# In place of the engine: the same functions, without a model.
STAND_IN = """
def race_decode(texts, num_tokens, methods, baseline_ms, budget_gb):
    name = choose_spec_method(methods, baseline_ms, budget_gb)[0] if methods else "baseline"
    assert methods == [] or name == "ngram-4", name
    return [[sum(map(ord, text)) % 97 + k for k in range(num_tokens)] for text in texts]

def race_gap(text, token_ids):
    right = race_decode([text], len(token_ids), [], 0.0, 0.0)[0]
    return 0.3 * max(abs(a - b) for a, b in zip(right, token_ids))

def race_facts():
    return {"bytes": 10 ** 6, "device": "cpu"}
"""


def measured(**changes):
    return dataclasses.replace(FIGURES, can_race=True, **changes)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Real workers, no model and no reading of clocks: what is decided on comes from the test."""
    driver = tmp_path / "driver.py"
    driver.write_text(STAND_IN)
    monkeypatch.setattr(race, "DRIVER", driver)
    monkeypatch.setattr(race.machine, "TURN", tmp_path / "lock")
    monkeypatch.setattr(race.machine, "flush_caches", lambda: None)
    decisions = []

    def run(self, rng):
        self.pair(rng)
        return decisions.pop(0)

    monkeypatch.setattr(Race, "run", run)
    return decisions


def raced(source=RIGHT):
    with Sandbox(LIMITS) as box:
        box.run_cells([Cell(COST, "exercise", source, ("choose_spec_method",))])
        return race.race(box, measured(), random.Random(1))


def decided(verdict, hint=""):
    return Decision(verdict, f"it was a {verdict}", hint, {"speedup": 1.0})


def test_prompts_are_new_every_time_and_none_is_the_lessons():
    rng = random.Random(7)
    drawn = [make(rng) for _ in range(200) for make in (copy_request, json_request)]
    assert len(set(drawn)) == len(drawn)
    bundled = {p.text for split in ("main", "heldout") for p in load_prompts(split)}
    assert not bundled & set(drawn)
    assert all(20 < len(text.split()) < 90 for text in drawn)
    again = random.Random(7)
    assert drawn[:2] == [copy_request(again), json_request(again)]


N = race.NUM_TOKENS
ONES = [1] * N


@pytest.mark.parametrize(
    "got",
    [None, "11", [], [ONES], [ONES, ONES[1:]], [[*ONES, 1], ONES], [ONES, tuple(ONES)]]
    + [[ONES, [1.0] * N], [[True] * N, ONES], [ONES, [2] * N]],
)
def test_an_output_is_the_targets_or_has_a_problem(got):
    right = [ONES, ONES]
    task = Task(("a text", "another"))
    assert race.output_problem(task, right, right) == ""
    assert race.output_problem(task, right, got)


def test_a_won_race_is_a_pass_and_both_sides_ran(stand_in):
    stand_in.append(decided("pass"))
    assert raced().verdict == "pass"


def test_a_lost_race_is_the_students_only_if_the_right_choice_wins(stand_in):
    stand_in += [decided("fail", "hint-speed-bar"), decided("pass")]
    assert raced().verdict == "fail"
    stand_in += [decided("fail", "hint-speed-bar"), decided("fail", "hint-speed-bar")]
    excused = raced()
    assert (excused.verdict, excused.hint) == ("not_measured", "hint-not-measured")
    assert excused.values["control"] == {"speedup": 1.0}
    stand_in += [decided("fail", "hint-speed-bar"), decided("inconclusive")]
    assert raced().verdict == "not_measured"


@pytest.mark.parametrize("verdict", ["inconclusive", "invalid"])
def test_other_verdicts_need_no_second_race(stand_in, verdict):
    stand_in.append(decided(verdict))
    assert raced().verdict == verdict and not stand_in


def test_tokens_are_compared_and_a_near_tie_is_forgiven(stand_in, monkeypatch):
    cells = [race.driver_cell()]
    task = Task(("a text", "another"))
    with Sandbox(LIMITS) as box:
        box.run_cells(cells)
        trial = race.make_trial(box, depth=8)
        right = box.call("race_decode", list(task.args), race.NUM_TOKENS, [], 0.0, 0.0).value
        off_by_one = [[*right[0][:-1], right[0][-1] + 1], right[1]]
        far_off = [right[0], [token + 9 for token in right[1]]]
        assert race.output_problem(task, right, off_by_one) and trial.forgive(task, off_by_one)
        assert race.output_problem(task, right, far_off) and not trial.forgive(task, far_off)
        for part in (right[:1], [right[0], right[1][:-1]], [right[0], [*right[1], 0]], [], None):
            assert race.output_problem(task, right, part) and not trial.forgive(task, part)
        drawn = trial.draw(random.Random(1))
    # Two prefills and twice three full rounds of nine tokens; the target alone makes 48 passes.
    assert drawn.least_share == pytest.approx(2 * (1 + 3) / (2 * 24)) and drawn.floor_ms > 0


def test_an_engine_that_does_not_start_is_not_the_students_fault(stand_in):
    race.DRIVER.write_text("raise OSError('no model here')")
    with pytest.raises(Rejected, match="no model here") as caught:
        raced()
    assert caught.value.verdict == "not_measured"


def test_no_race_where_nothing_is_predicted_to_reach_the_bar():
    slow = [{**method, "verify_ms": 300.0} for method in FIGURES.methods]
    with pytest.raises(Rejected, match="no measured method is predicted") as caught:
        race.require_speedup(None, measured(methods=slow), random.Random(1))
    assert caught.value.verdict == "not_measured"


def test_the_verdict_names_device_and_speed_and_keeps_the_figures():
    verdict = grade(submission())["live"]
    assert verdict.verdict == "pass" and "on json and copy prompts on cpu (test)" in verdict.reason
    best = figures.choose(FIGURES.methods, FIGURES.baseline_ms, 1.0)[1]
    assert verdict.values["speedup"] == pytest.approx(best, rel=1e-3) and best > race.BAR
    assert race.max_depth(FIGURES.methods) == 8
    assert cost_model.choose(FIGURES.methods, FIGURES.baseline_ms, 1.0)[0] == "ngram-4"


def test_a_name_that_nobody_measured_is_no_faster_than_the_baseline():
    class Odd:
        def call(self, *arguments):
            from lessons.lib.checks.outcome import Outcome

            return Outcome("value", ("unheard-of", 9.0))

    with pytest.raises(Rejected) as caught:
        race.require_speedup(Odd(), FIGURES, random.Random(1))
    assert (caught.value.verdict, caught.value.hint) == ("fail", "hint-speed-bar")


@pytest.mark.slow
def test_an_honest_student_wins_or_waits_on_the_real_engine():
    found = figures._measure()
    with Sandbox(LIMITS) as box:
        box.run_cells([Cell(COST, "exercise", RIGHT, ("choose_spec_method",))])
        decision = race.race(box, found, random.Random(3))
    assert decision.verdict in ("pass", "inconclusive", "not_measured"), decision
    assert len(decision.values["student_ms"]) == decision.values["pairs"] >= 6
