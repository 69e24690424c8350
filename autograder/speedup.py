"""Is a student's code faster than a baseline? A protocol in which only speed counts.

Each side runs in a sandboxed worker of its own and only one of them at a time: while one is timed
the other is stopped. Every call has a fresh input, drawn after the student's code was loaded and
never shown twice. The grader's clock decides; it stops when the output has arrived and has been
compared. What the worker's clock says must agree with it.

What the figures prove is decided in `speed_decision.py`.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from autograder.speed_decision import Decision, Pair, Rules, Timing, decide, record
from lessons.lib.checks.outcome import Outcome


@dataclass(frozen=True)
class Task:
    """One input for both sides.

    `floor_ms`: a roofline, bytes over peak bandwidth or operations over peak rate, whichever is
    larger. `least_share`: the smallest share of the baseline's work that any right answer takes.
    """

    args: tuple[Any, ...]
    floor_ms: float = 0.0
    least_share: float = 0.0


class Side(Protocol):
    """A worker that answers tasks. `Sandbox` with one of its functions, or a stand-in of a test."""

    def call(self, *args: Any) -> Outcome: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


@dataclass(frozen=True)
class Trial:
    """The parts that differ from lesson to lesson.

    draw      a fresh task
    problem   what is wrong with an output, given the baseline's of the same task; "" if nothing.
              It runs while the clock does, so it compares and computes nothing
    forgive   asked only about an output with a problem, after the clock: whether it is right all
              the same, such as a near-tie that rounding decided
    """

    draw: Callable[[random.Random], Task]
    problem: Callable[[Task, Any, Any], str]
    forgive: Callable[[Task, Any], bool] = lambda task, output: False


class Stopped(Exception):
    """The trial is over before the figures decide."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.reason)
        self.decision = decision


@dataclass
class Race:
    """Student against baseline. `turn` is held for each pair; `flush` empties caches before each
    call; `state` tells about the machine's clocks and load. All three come from `machine.py`.
    """

    student: Side
    baseline: Side
    trial: Trial
    rules: Rules
    call_s: float
    clock: Callable[[], float] = time.perf_counter
    turn: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    flush: Callable[[], None] = lambda: None
    state: Callable[[], dict[str, Any]] = dict

    def run(self, rng: random.Random) -> Decision:
        """Warm up, measure, decide; once more while that decides nothing."""
        before = self.state()
        decision, pairs = Decision("inconclusive", "nothing was measured"), list[Pair]()
        try:
            for _ in range(self.rules.warm_up):
                self.pair(rng)
            for _ in range(self.rules.attempts):
                pairs += [self.pair(rng) for _ in range(self.rules.pairs)]
                decision = decide(pairs, self.rules)
                if decision.verdict != "inconclusive":
                    break
        except Stopped as stopped:
            decision = stopped.decision
        machine = {"before": before, "after": self.state()}
        values = {**record(pairs, self.rules), **decision.values, "machine": machine}
        return Decision(decision.verdict, decision.reason, decision.hint, values)

    def pair(self, rng: random.Random) -> Pair:
        """The baseline, then the student, on a fresh task. Raises Stopped."""
        with self.turn():
            task = self.trial.draw(rng)
            with self._alone(self.baseline, self.student):
                outcome, baseline, _ = self._timed(self.baseline, task, None)
            if not outcome.is_value:
                raise Stopped(lost_baseline(outcome))
            with self._alone(self.student, self.baseline):
                answer, student, problem = self._timed(self.student, task, outcome.value)
            if not answer.is_value:
                raise Stopped(lost_student(answer, baseline.host_ms, self.call_s))
            if problem:
                with self._alone(self.baseline, self.student):
                    is_right = self.trial.forgive(task, answer.value)
                if not is_right:
                    raise Stopped(Decision("fail", problem, "hint-speed-output"))
            return Pair(baseline, student, task.floor_ms, task.least_share)

    @contextlib.contextmanager
    def _alone(self, side: Side, other: Side) -> Iterator[None]:
        """Nothing of the other side computes meanwhile, neither for itself nor against this one."""
        other.pause()
        try:
            self.flush()
            yield
        finally:
            other.resume()

    def _timed(self, side: Side, task: Task, expected: Any) -> tuple[Outcome, Timing, str]:
        """A call, and the comparison of its output, by the grader's clock."""
        started = self.clock()
        outcome = side.call(*task.args)
        problem = ""
        if outcome.is_value and expected is not None:
            problem = self.trial.problem(task, expected, outcome.value)
        host_ms = (self.clock() - started) * 1e3
        return outcome, Timing(host_ms, outcome.worker_ms), problem


def lost_student(outcome: Outcome, baseline_ms: float, call_s: float) -> Decision:
    """The student's call gave no value. A machine on which nothing is quick proves nothing."""
    if outcome.kind == "timeout" and baseline_ms > call_s * 1e3 / 10:
        return Decision(
            "inconclusive", "this machine is too slow to time anything", "hint-speed-noise"
        )
    if outcome.is_lost:
        return Decision("invalid", f"the timed call {outcome.detail}", "hint-run")
    return Decision("fail", "the timed call did not return a value", "hint-speed-output")


def lost_baseline(outcome: Outcome) -> Decision:
    """Our own side gave no value: nobody's fault but ours or the machine's."""
    why = outcome.detail or outcome.error_type or outcome.kind
    return Decision("not_measured", f"the baseline could not be timed: {why}", "hint-not-measured")
