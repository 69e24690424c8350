"""Is a student's code faster than a baseline? A protocol in which only speed counts.

Each side runs in a sandboxed worker of its own and only one of them at a time: while one is timed
the other is stopped. Every call has a fresh input, drawn after the student's code was loaded and
never shown twice. The grader's clock decides; it stops when the output has arrived and has been
compared. What the worker's clock says must agree with it.

The decision is `decide`, a function of plain figures, so that it is tested without any clock.
"""

import contextlib
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from autograder.verdict import VerdictName
from lessons.lib.bench.bootstrap import Interval, median_interval
from lessons.lib.checks.outcome import Outcome

# Half of what no honest computation can undercut: room for what we misjudge about a machine.
FLOOR_SHARE = 0.5
# The call lies inside the grader's window, so that the worker cannot have worked longer than that.
CLOCK_RESOLUTION_MS = 1.0
CLOCK_RESOLUTION_SHARE = 0.02
# A worker's clock stops before its answer has travelled; more than this it does not miss.
CLOCK_GAP_SHARE = 0.25
CLOCK_GAP_MS = 20.0


@dataclass(frozen=True)
class Rules:
    """What has to be shown, and how hard we try.

    The speedup is the median of `pairs` paired ratios or a multiple of it. It passes when the whole
    interval at `level` lies above `bar`, fails when it lies below; else another `pairs` are
    measured, `attempts` times in all. The looks share the error that `level` allows. Of six pairs
    the interval is the whole range, which misses the median in 1 of 64 cases on either side.
    """

    bar: float
    pairs: int = 6
    attempts: int = 3
    level: float = 0.95
    warm_up: int = 1

    @property
    def level_of_look(self) -> float:
        """Bonferroni: several looks err together no more often than one at `level`."""
        return 1.0 - (1.0 - self.level) / self.attempts


@dataclass(frozen=True)
class Task:
    """One input for both sides.

    `floor_ms`: a roofline, bytes over peak bandwidth or operations over peak rate, whichever is
    larger. `least_share`: the smallest share of the baseline's work that any right answer takes.
    """

    args: tuple[Any, ...]
    floor_ms: float = 0.0
    least_share: float = 0.0


@dataclass(frozen=True)
class Timing:
    """One call by two clocks."""

    host_ms: float
    worker_ms: float

    @property
    def gap_ms(self) -> float:
        """Host time that the worker does not account for."""
        return self.host_ms - self.worker_ms


@dataclass(frozen=True)
class Pair:
    """Baseline and student on one input, one right after the other."""

    baseline: Timing
    student: Timing
    floor_ms: float = 0.0
    least_share: float = 0.0


@dataclass(frozen=True)
class Decision:
    """What came of it. `values` are plain figures for the record; `hint` names the advice."""

    verdict: VerdictName
    reason: str
    hint: str = ""
    values: dict[str, Any] = field(default_factory=dict)


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


def decide(pairs: Sequence[Pair], rules: Rules) -> Decision:
    """The verdict on the pairs measured so far: first whether the times can be true at all."""
    reason = too_fast(pairs)
    if reason:
        return Decision("invalid", reason, "hint-speed-times")
    reason = clocks_disagree(pairs)
    if reason:
        return Decision("invalid", reason, "hint-speed-times")
    found = interval_of(pairs, rules)
    told = f"{found.estimate:.2f} times as fast as the baseline [{found.low:.2f}, {found.high:.2f}]"
    if found.low > rules.bar:
        return Decision("pass", told)
    if found.high < rules.bar:
        return Decision("fail", f"{told}, not {rules.bar:g} times", "hint-speed-bar")
    return Decision(
        "inconclusive",
        f"{told} in {len(pairs)} pairs: too noisy to tell whether that is above {rules.bar:g}",
        "hint-speed-noise",
    )


def interval_of(pairs: Sequence[Pair], rules: Rules) -> Interval:
    """Speedup by the grader's clock alone."""
    return median_interval(
        [pair.baseline.host_ms for pair in pairs],
        [pair.student.host_ms for pair in pairs],
        rules.level_of_look,
    )


def too_fast(pairs: Sequence[Pair]) -> str:
    """Whether a time lies below what the work must take; one is enough, no mean hides it.

    The baseline's quickest call stands for its work, since a slow one says nothing of the machine.
    """
    quickest = min(pair.baseline.host_ms for pair in pairs)
    for pair in pairs:
        floor_ms = FLOOR_SHARE * max(pair.floor_ms, pair.least_share * quickest)
        if pair.student.host_ms < floor_ms:
            return (
                f"a call took {pair.student.host_ms:.3g} ms, less than the {floor_ms:.3g} ms that"
                " the work must take on this machine"
            )
    return ""


def clocks_disagree(pairs: Sequence[Pair]) -> str:
    """Whether the worker's clock tells another story than the grader's.

    Longer than the grader waited is impossible. Much shorter is noise in one pair and a story in
    the median; what the baseline's own worker misses is allowed for.
    """
    for pair in pairs:
        limit = pair.student.host_ms * (1 + CLOCK_RESOLUTION_SHARE) + CLOCK_RESOLUTION_MS
        if not 0.0 <= pair.student.worker_ms <= limit:
            return "the worker says that a call took longer than the grader waited for it"
    gap_ms = statistics.median(pair.student.gap_ms for pair in pairs)
    usual_ms = max(pair.baseline.gap_ms for pair in pairs)
    host_ms = statistics.median(pair.student.host_ms for pair in pairs)
    if gap_ms > 3 * max(usual_ms, 0.0) + CLOCK_GAP_SHARE * host_ms + CLOCK_GAP_MS:
        return f"the worker's clock misses {gap_ms:.3g} of {host_ms:.3g} ms"
    return ""


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


def record(pairs: Sequence[Pair], rules: Rules) -> dict[str, Any]:
    """What is kept with the verdict."""
    kept: dict[str, Any] = {"bar": rules.bar, "pairs": len(pairs)}
    if len(pairs) >= rules.pairs:
        found = interval_of(pairs, rules)
        kept |= {"speedup": _short(found.estimate), "low": _short(found.low)}
        kept |= {"high": _short(found.high), "level": _short(found.level)}
    for name in ("baseline", "student"):
        times = [getattr(pair, name) for pair in pairs]
        kept[f"{name}_ms"] = [_short(time.host_ms) for time in times]
        kept[f"{name}_worker_ms"] = [_short(time.worker_ms) for time in times]
    return kept


def _short(value: float) -> float:
    """Four significant digits; what a lying clock said that is no number becomes -1."""
    return float(f"{value:.4g}") if math.isfinite(value) else -1.0
