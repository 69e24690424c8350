"""How deep to draft: a controller that looks back, for chains of any drafter.

Not to be confused with DSpark, which looks ahead: it drafts whole blocks and asks of each draft how
likely it is to survive. This one knows what was accepted lately and what steps took, and nothing of
the next block; in return it asks nothing of the drafter, and it saves the drafting too.

In the style of SGLang's `--speculative-adaptive`: a moving average of accepted drafts, candidate
depths by batch size, hysteresis, decisions at intervals. One thing differs. SGLang goes up and down
at fixed numbers of accepted drafts, whatever drafting costs; where a draft costs much, as on a CPU,
that drafts at a loss. Here a depth is worth its tokens per millisecond, by the clock of the engine.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Protocol

from kernels.runtime import InputError

DEFAULT_CANDIDATES: dict[int, tuple[int, ...]] = {
    1: (0, 1, 3, 7),
    8: (0, 1, 3),
    32: (0, 1),
    64: (0,),
}
Outcome = tuple[int, int]  # of one request's round: drafts that were verified, those accepted


class DepthPolicy(Protocol):
    """Decides the depth of a step before anything is drafted for it."""

    def depth(self, batch: int) -> int:
        """Most drafts of each request in a step in which `batch` requests decode."""
        ...

    def observe(self, rounds: Sequence[Outcome], step_ms: float | None) -> None:
        """What came of that step: the round of each request that decoded, and how long all of it
        took; None where prompts were computed beside."""
        ...


@dataclass(frozen=True)
class DepthRule:
    """The constants of the controller.

    weight     of the newest step in the moving averages
    interval   rounds between decisions, of all requests; also those of a trial
    min_steps  of an interval, however many requests there are: times need more than one step
    margin     a depth is left for another one that is better by this share
    window     of each depth the last so many steps, whose median is what it takes
    num_plain  steps without drafts at the start, which tell what drafting has to beat
    num_rest   steps without drafts before the smallest depth is tried again. Doubled after every
               trial that fails, up to max_rest, so that a drafter that never pays costs next to
               nothing. While drafts pay, one step without them in num_rest keeps its time known
    """

    weight: float = 0.2
    interval: int = 4
    min_steps: int = 3
    margin: float = 0.03
    window: int = 5
    num_plain: int = 2
    num_rest: int = 100
    max_rest: int = 1600

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise InputError(f"adaptive weight must be above 0 and at most 1, got {self.weight}")
        counts = (
            *(self.interval, self.min_steps, self.window),
            *(self.num_plain, self.num_rest, self.max_rest),
        )
        if min(counts) < 1 or self.margin < 0:
            raise InputError(
                "adaptive depth: interval, min_steps, window, num_plain, num_rest and max_rest "
                f"must be 1 or more and margin 0 or more, got {counts} and {self.margin}"
            )


@dataclass
class Averages:
    """Of the drafts of late, per round that had any, but `gained`, which is per round of any kind.

    accepted, rejected: drafts the target agreed with, and rounds that ended at one it did not.
    The first steps count alike; from then on the newest with its weight.
    """

    weight: float
    accepted: float = 0.0
    rejected: float = 0.0
    gained: float = 0.0
    num_steps: int = 0  # since `start`

    def start(self) -> None:
        """Forget: what was accepted is old news."""
        self.num_steps = 0

    def add(self, rounds: Sequence[Outcome]) -> None:
        """Count a step in which drafting was allowed."""
        self.num_steps += 1
        self._move("gained", statistics.fmean(accepted for _, accepted in rounds))
        drafted = [outcome for outcome in rounds if outcome[0]]
        if drafted:
            self._move("accepted", statistics.fmean(accepted for _, accepted in drafted))
            self._move("rejected", statistics.fmean(a < n for n, a in drafted))

    def _move(self, name: str, newest: float) -> None:
        old = getattr(self, name)
        setattr(self, name, old + max(self.weight, 1 / self.num_steps) * (newest - old))

    @property
    def rate(self) -> float:
        """Chance of a draft to be accepted if those before it were: accepted ones among those that
        were judged, and one of each kind beside, so that few steps make no certainty."""
        beside = max(self.weight, 1 / self.num_steps) if self.num_steps else 1.0
        return (self.accepted + beside) / (self.accepted + self.rejected + 2 * beside)

    def gain(self, depth: int, now: int) -> float:
        """Drafts accepted per round at a depth, where `gained` is what depth `now` brings: every
        draft with the same chance, given those before it."""
        reach = [sum(self.rate**k for k in range(1, d + 1)) for d in (depth, now)]
        return self.gained * reach[0] / reach[1] if reach[1] else 0.0


class StepTimes:
    """Milliseconds of a step by depth, as the engine's clock tells them."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._ms: dict[int, deque[float]] = {}

    def add(self, depth: int, ms: float) -> None:
        """One more step."""
        self._ms.setdefault(depth, deque(maxlen=self._window)).append(ms)

    def ms(self, depth: int) -> float | None:
        """What a step takes. A depth that was never run lies on the line through its nearest two
        that were; None where there are no two."""
        known = {d: statistics.median(times) for d, times in self._ms.items()}
        if depth in known:
            return known[depth]
        if len(known) < 2:
            return None
        first, second = sorted(known, key=lambda d: abs(d - depth))[:2]
        slope = max((known[second] - known[first]) / (second - first), 0.0)
        return known[first] + slope * (depth - first)


@dataclass
class DepthController:
    """The depth of one class of batch sizes. It owns averages and times; candidates ascend.

    It begins without drafts, tries the smallest depth for an interval, and goes on from there.
    """

    candidates: Sequence[int]
    rule: DepthRule
    batch: int = 1  # requests of a step, about
    averages: Averages = field(init=False)
    times: StepTimes = field(init=False)
    depth: int = field(init=False)  # in force for the next step

    def __post_init__(self) -> None:
        self.averages, self.times = Averages(self.rule.weight), StepTimes(self.rule.window)
        self._chosen = self.depth = self.candidates[0]
        self._interval = max(self.rule.min_steps, self.rule.interval // self.batch)
        self._wait = self.rule.num_plain if self.depth == 0 else self._interval
        self._rest = self.rule.num_rest  # the next one, if the trial fails
        self._is_trial = False
        self._num_drafted = 0  # steps since the last one without drafts

    def for_batch(self, candidates: Sequence[int], batch: int) -> DepthController:
        """One of another class that begins with all that this one knows: acceptance does not depend
        on the batch, and times are corrected by the first steps."""
        new = DepthController(candidates, self.rule, batch)
        new.averages, new.times = replace(self.averages), deepcopy(self.times)
        new._rest, new._wait = self._rest, self._wait
        depth = max((d for d in candidates if d <= self._chosen), default=candidates[0])
        new.averages.gained = self.averages.gain(depth, self._chosen)
        new._chosen = new.depth = depth
        return new

    def observe(self, rounds: Sequence[Outcome], step_ms: float | None) -> None:
        """A step at this depth; decides when it is time."""
        if self.depth and not any(drafted for drafted, _ in rounds):
            return  # nobody found anything to draft: no news, and no cost either
        if step_ms is not None:
            self.times.add(self.depth, step_ms)
        if self.depth:
            self.averages.add(rounds)
            self._num_drafted += 1
        else:
            self._num_drafted = 0
            if self._chosen:  # it was there to be timed
                self.depth = self._chosen
                return
        self._wait -= 1
        if self._wait <= 0:
            self._decide()
        is_due = self._chosen and 0 in self.candidates and self._num_drafted >= self.rule.num_rest
        self.depth = 0 if is_due else self._chosen

    def value(self, depth: int) -> float:
        """Tokens per millisecond of a request, as far as is known; 0 where nothing is."""
        ms = self.times.ms(depth)
        gain = self.averages.gain(depth, self._chosen) if depth else 0.0
        return (1 + gain) / ms if ms else 0.0

    def _decide(self) -> None:
        if self._chosen == 0:
            if len(self.candidates) > 1:
                self._choose(self.candidates[1])
                self._is_trial = True
                self.averages.start()
            return
        best = max(self.candidates, key=self.value)
        now = self.value(self._chosen)
        is_lost = 0 in self.candidates and now <= self.value(0)
        if is_lost or self.value(best) > (1 + self.rule.margin) * now:
            self._choose(best)
        else:
            self._choose(self._chosen)
        if self._chosen == 0:
            self._wait = self._rest
            if self._is_trial:
                self._rest = min(2 * self._rest, self.rule.max_rest)
        else:
            self._rest = self.rule.num_rest
        self._is_trial = False

    def _choose(self, depth: int) -> None:
        self.averages.gained = self.averages.gain(depth, self._chosen) if self._chosen else 0.0
        self._chosen, self._wait = depth, self._interval


class AdaptiveDepth:
    """A DepthPolicy: one controller for each class of batch sizes, up to each power of two. A class
    that is new begins with what the nearest one knows.

    Large batches have their own candidates because there a row costs as much as it yields.
    """

    def __init__(
        self,
        candidates: Mapping[int, Sequence[int]] = DEFAULT_CANDIDATES,
        rule: DepthRule | None = None,
    ) -> None:
        """candidates: depths by batch size; other batch sizes go with the nearest one."""
        if not candidates:
            raise InputError("adaptive depth: no candidates; give depths for at least one batch")
        for batch, depths in candidates.items():
            if batch < 1 or not depths or min(depths) < 0:
                raise InputError(
                    f"adaptive depth: batch {batch} has candidates {list(depths)}; give at least "
                    "one depth of 0 or more, for a batch of 1 or more"
                )
        self._rule = rule or DepthRule()
        self._candidates = {batch: sorted(set(depths)) for batch, depths in candidates.items()}
        self._controllers: dict[int, DepthController] = {}

    def depth(self, batch: int) -> int:
        """The depth in force for steps of this size."""
        return self._controller(batch).depth

    def observe(self, rounds: Sequence[Outcome], step_ms: float | None) -> None:
        """Count the step for its class of batch sizes."""
        self._controller(len(rounds)).observe(rounds, step_ms)

    def _controller(self, batch: int) -> DepthController:
        size = 1 << max(batch - 1, 0).bit_length()  # of the class: 1, 2, 4, 8, ...
        if size not in self._controllers:
            depths = self._candidates[nearest(self._candidates, size)]
            known = self._controllers
            self._controllers[size] = (
                known[nearest(known, size)].for_batch(depths, size)
                if known
                else DepthController(depths, self._rule, size)
            )
        return self._controllers[size]


def nearest(sizes: Iterable[int], batch: int) -> int:
    """Between two of them the larger, whose depths are the cautious."""
    return min(sizes, key=lambda size: (abs(size - batch), -size))
