"""The decision on a speedup, a function of plain figures: it is tested without any clock.

First whether the times can be true at all; then whether the interval of the speedup clears the bar.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autograder.verdict import VerdictName
from lessons.lib.bench.bootstrap import Interval, median_interval

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


def record(pairs: Sequence[Pair], rules: Rules) -> dict[str, Any]:
    """What is kept with the verdict."""
    kept: dict[str, Any] = {"bar": rules.bar, "warm_up": rules.warm_up, "pairs": len(pairs)}
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
