"""The race and its decision, on simulated clocks: every branch, and every way to cheat by time."""

import contextlib
import math
import random

import pytest
from speed_kit import Runner, World, draw, noisy, problem, race

from autograder import speed_decision
from autograder.speed_decision import Pair, Rules, Timing, decide
from autograder.speedup import Task, Trial
from lessons.lib.checks.outcome import Outcome

RULES = Rules(bar=1.2)


def pairs(ratios, base_ms=100.0, **fields):
    found = []
    for ratio in ratios:
        baseline = Timing(base_ms + 1.0, base_ms)
        student = Timing(base_ms / ratio + 1.0, base_ms / ratio)
        found.append(Pair(baseline, student, **fields))
    return found


# The decision


@pytest.mark.parametrize(
    ("ratios", "verdict", "hint"),
    [
        ([1.5, 1.52, 1.48, 1.5, 1.51], "pass", ""),
        ([1.0, 1.02, 0.98, 1.0, 1.01], "fail", "hint-speed-bar"),
        ([1.1, 1.3, 1.15, 1.25, 1.2], "inconclusive", "hint-speed-noise"),
        ([0.2, 9.0, 0.9, 3.0, 1.1], "inconclusive", "hint-speed-noise"),
    ],
)
def test_the_interval_decides_and_not_the_estimate(ratios, verdict, hint):
    decision = decide(pairs(ratios), RULES)
    assert (decision.verdict, decision.hint) == (verdict, hint)
    assert decision.reason


def test_one_lucky_pair_and_one_stall_move_nothing():
    honest = [1.5, 1.52, 1.48, 1.5, 1.51, 1.5, 1.49, 1.5, 1.5, 1.51]
    assert decide(pairs([*honest[:-1], 0.1]), RULES).verdict == "pass"
    slow = [ratio / 1.5 for ratio in honest]
    assert decide(pairs([*slow[:-1], 9.0]), RULES).verdict == "fail"


def test_a_time_below_the_floor_is_invalid_whatever_the_others_are():
    honest = pairs([1.5] * 5, floor_ms=2.0, least_share=0.1)
    replay = Pair(Timing(101.0, 100.0), Timing(0.4, 0.3), floor_ms=2.0)
    assert decide([*honest, replay], RULES).hint == "hint-speed-times"
    by_share = Pair(Timing(101.0, 100.0), Timing(4.0, 3.9), least_share=0.1)
    assert decide([*honest, by_share], RULES).verdict == "invalid"
    assert decide(honest, RULES).verdict == "pass"


def test_a_stall_of_the_baseline_does_not_raise_the_floor():
    quick = pairs([1.5] * 5, least_share=0.1)
    stalled = Pair(Timing(5000.0, 4999.0), Timing(67.0, 66.0), least_share=0.1)
    assert decide([*quick, stalled], RULES).verdict == "pass"


@pytest.mark.parametrize("said", [-1.0, 75.0, math.inf, math.nan])
def test_a_worker_that_worked_longer_than_we_waited_is_invalid(said):
    lie = Pair(Timing(101.0, 100.0), Timing(67.0, said))
    assert decide([*pairs([1.5] * 5), lie], RULES).hint == "hint-speed-times"


def test_a_clock_that_stands_still_is_invalid_and_a_late_reply_is_not():
    stopped = [Pair(Timing(101.0, 100.0), Timing(67.0, 0.0)) for _ in range(5)]
    assert decide(stopped, RULES).hint == "hint-speed-times"
    late = Pair(Timing(101.0, 100.0), Timing(67.0, 5.0))
    assert decide([*pairs([1.5] * 5), late], RULES).verdict == "pass"


def test_what_the_baselines_clock_misses_too_is_allowed_for():
    loaded = [Pair(Timing(160.0, 100.0), Timing(115.0, 60.0)) for _ in range(5)]
    assert not decide(loaded, RULES).hint


# The race


def test_sides_take_turns_on_fresh_inputs_and_only_one_runs():
    found = race()
    decision = found.run(random.Random(1))
    student, baseline = found.student, found.baseline
    assert decision.verdict == "pass" and decision.values["speedup"] == pytest.approx(2.0, 0.01)
    assert student.calls == baseline.calls and len(set(student.calls)) == len(student.calls) == 7
    assert not student.is_paused and not baseline.is_paused


def test_the_machine_is_asked_for_flushed_and_recorded():
    log = []

    @contextlib.contextmanager
    def turn():
        log.append("turn")
        yield

    states = iter(["warm", "hot"])
    found = race(turn=turn, flush=lambda: log.append("flush"), state=lambda: {"it": next(states)})
    values = found.run(random.Random(1)).values
    assert log == ["turn", "flush", "flush"] * 7
    assert values["machine"] == {"before": {"it": "warm"}, "after": {"it": "hot"}}
    assert values["pairs"] == len(values["student_ms"]) == 6 and values["bar"] == 1.2
    assert values["warm_up"] == 1


def test_inputs_are_drawn_from_the_secret_seed_and_never_before_a_call():
    first, second = race(), race()
    first.run(random.Random("a"))
    second.run(random.Random("b"))
    assert not set(first.student.calls) & set(second.student.calls)


def test_noise_is_tried_again_and_then_left_to_a_person():
    world = World()
    ratios = [0.2, 5.0, 0.9, 1.3]
    student = Runner(world, lambda n: 100 / ratios[n % 4])
    decision = race(student, Runner(world, 100.0), world).run(random.Random(1))
    assert decision.verdict == "inconclusive" and len(student.calls) == 1 + 3 * 6
    assert decision.values["pairs"] == 18


def test_the_retry_may_settle_it():
    world = World()
    student = Runner(world, lambda n: 50.0 if n > 7 else 50.0 * (1 + 3 * (n % 2)))
    decision = race(student, Runner(world, 100.0), world).run(random.Random(1))
    assert decision.verdict == "pass" and decision.values["pairs"] > 6


def spread_of_verdicts(true_speedup, spread, runs=20):
    counts = {"pass": 0, "fail": 0, "inconclusive": 0, "invalid": 0}
    for seed in range(runs):
        rng, world = random.Random(seed), World()
        student = Runner(world, noisy(rng, 100 / true_speedup, spread))
        baseline = Runner(world, noisy(rng, 100.0, spread))
        counts[race(student, baseline, world).run(rng).verdict] += 1
    return counts


def test_an_honest_student_on_a_noisy_machine_never_fails():
    counts = spread_of_verdicts(1.8, 0.35)
    assert counts["fail"] == counts["invalid"] == 0 and counts["pass"] >= 14


def test_who_gains_nothing_never_passes():
    counts = spread_of_verdicts(1.0, 0.1)
    assert counts["pass"] == counts["invalid"] == 0 and counts["fail"] >= 14
    assert spread_of_verdicts(1.0, 0.35)["pass"] <= 1


def test_a_speedup_that_is_the_bar_itself_seldom_decides():
    counts = spread_of_verdicts(1.2, 0.15)
    assert counts["inconclusive"] >= 14


# What goes wrong


def test_a_wrong_output_fails_unless_it_is_right_after_all():
    world = World()
    student = Runner(world, 1.0, answer=lambda n: 0)
    decision = race(student, world=world).run(random.Random(1))
    assert (decision.verdict, decision.hint) == ("fail", "hint-speed-output")
    asked = []
    trial = Trial(draw, problem, lambda task, output: asked.append(output) or True)
    student = Runner(world, 50.0, answer=lambda n: n * n + 1)
    found = race(student, world=world, trial=trial)
    assert found.run(random.Random(1)).verdict == "pass" and len(asked) == 7


@pytest.mark.parametrize("outcome", ["timeout", "died", "garbled"])
def test_a_lost_student_is_invalid(outcome):
    world = World()
    student = Runner(world, 50.0, lost=Outcome(outcome, detail="went away"))
    decision = race(student, world=world).run(random.Random(1))
    assert decision.verdict == "invalid" and "went away" in decision.reason


def test_a_timeout_on_a_machine_where_the_baseline_crawls_is_nobodys_fault():
    world = World()
    student = Runner(world, 60_000.0, lost=Outcome("timeout", detail="too slow"))
    decision = race(student, Runner(world, 30_000.0), world).run(random.Random(1))
    assert decision.verdict == "inconclusive"


def test_an_exception_fails_and_a_lost_baseline_is_not_the_students():
    world = World()
    broken = Runner(world, 50.0, lost=Outcome("error", error_type="KeyError"))
    assert race(broken, world=world).run(random.Random(1)).verdict == "fail"
    gone = Runner(world, 100.0, lost=Outcome("died", detail="no memory"))
    decision = race(baseline=gone, world=world).run(random.Random(1))
    assert decision.verdict == "not_measured" and "no memory" in decision.reason


# Cheats by time, each by the number of its pattern


def verdict_of(student, baseline=None, world=None, **parts):
    return race(student, baseline, world, **parts).run(random.Random(3)).verdict


def test_1_and_2_a_cache_never_sees_an_input_again():
    world, cache = World(), {}

    class Cached(Runner):
        def call(self, number):
            self.ms = 0.1 if number in cache else 100.0
            cache[number] = True
            return super().call(number)

    assert verdict_of(Cached(world), world=world) == "fail"


def test_3_work_kept_from_another_input_is_a_wrong_output():
    world = World()
    first = []

    def kept(number):
        first.append(number * number)
        return first[0]

    assert verdict_of(Runner(world, 1.0, answer=kept), world=world) == "fail"


def test_5_and_22_nothing_is_prepared_while_the_baseline_is_timed():
    """A side that works whenever it is not stopped: ahead for itself, or to slow the other down."""
    world = World()

    class Busy(Runner):
        def slow(self, ms):
            return ms * (1 if self.is_paused else 10)

    student = Busy(world, 100.0)
    baseline = Runner(world, lambda n: student.slow(100.0))
    assert verdict_of(student, baseline, world) == "fail"


def test_7_clocks_that_lie_decide_nothing():
    for lie in (lambda ms: 0.0, lambda ms: ms / 10, lambda ms: ms * 3):
        world = World()
        assert verdict_of(Runner(world, 100.0, worker=lie), world=world) == "invalid"


def test_14_and_19_null_answers_fail():
    for null in (0, None, [], "", math.nan):
        world = World()
        student = Runner(world, 1.0, answer=lambda n, null=null: null)
        assert verdict_of(student, world=world) == "fail"


def test_20_the_first_call_cannot_do_the_work_of_all():
    world = World()
    student = Runner(world, lambda n: 600.0 if n == 2 else 1.0)
    assert verdict_of(student, world=world) == "invalid"


def test_21_one_case_near_zero_voids_the_score():
    world = World()
    student = Runner(world, lambda n: 0.01 if n == 3 else 100.0)
    assert verdict_of(student, world=world) == "invalid"


def test_23_a_lucky_run_is_not_looked_for():
    """The warm-up is thrown away and retries add to what was measured; none is dropped."""
    world = World()
    student = Runner(world, lambda n: 100.0 if n % 2 else 60.0)
    decision = race(student, Runner(world, 100.0), world).run(random.Random(1))
    assert decision.verdict != "pass" and decision.values["pairs"] == 18


def test_the_comparison_is_on_the_clock():
    world = World()

    def slow_problem(task, expected, got):
        world.now += 0.1
        return problem(task, expected, got)

    decision = race(world=world, trial=Trial(draw, slow_problem)).run(random.Random(1))
    assert decision.verdict != "pass" and min(decision.values["student_ms"]) > 150


def test_a_floor_needs_no_share_and_a_share_no_floor():
    assert Task((1,)).floor_ms == Task((1,)).least_share == 0.0
    assert speed_decision.too_fast(pairs([1.5] * 5)) == ""
