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

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Protocol

from kernels.runtime import InputError
from lessons.lib.draft.depth_facts import Averages, Outcome, StepTimes

DEFAULT_CANDIDATES: dict[int, tuple[int, ...]] = {
    1: (0, 1, 3, 7),
    8: (0, 1, 3),
    32: (0, 1),
    64: (0,),
}


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
    num_rest   steps without drafts, at least, before the smallest depth is tried again. While
               drafts pay, one step without them in num_rest keeps its time known
    share      of the time that trials may lose: the rest after one is as long as that asks for, so
               that a drafter that never pays costs next to nothing, however dear it is
    hopeless   a depth worth less than this share of no drafts is left before its interval ends
    """

    weight: float = 0.2
    interval: int = 4
    min_steps: int = 3
    margin: float = 0.03
    window: int = 5
    num_plain: int = 2
    num_rest: int = 50
    share: float = 0.02
    hopeless: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise InputError(f"adaptive weight must be above 0 and at most 1, got {self.weight}")
        counts = (
            *(self.interval, self.min_steps, self.window),
            *(self.num_plain, self.num_rest),
        )
        if min(counts) < 1 or self.margin < 0 or not 0 < self.share < 1:
            raise InputError(
                "adaptive depth: interval, min_steps, window, num_plain and num_rest must be 1 or "
                "more, margin 0 or more, share between 0 and 1, got "
                f"{counts}, {self.margin} and {self.share}"
            )


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
        self._num_steps = 0  # at this depth since it was chosen
        self._lost_ms = 0.0  # to drafting since it began, over what its tokens take without
        self._num_drafted = 0  # steps since the last one without drafts

    def for_batch(self, candidates: Sequence[int], batch: int) -> DepthController:
        """One of another class that begins with all that this one knows: acceptance does not depend
        on the batch, and times are corrected by the first steps."""
        new = DepthController(candidates, self.rule, batch)
        new.averages, new.times = replace(self.averages), deepcopy(self.times)
        new._wait = self._wait
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
            self._count(rounds, step_ms)
        else:
            self._num_drafted = 0
            if self._chosen:  # it was there to be timed
                self.depth = self._chosen
                return
        self._wait -= 1
        self._num_steps += 1
        if self._wait <= 0 or self._is_hopeless():
            self._decide()
        is_due = self._chosen and 0 in self.candidates and self._num_drafted >= self.rule.num_rest
        self.depth = 0 if is_due else self._chosen

    def value(self, depth: int) -> float:
        """Tokens per millisecond of a request, as far as is known; 0 where nothing is."""
        ms = self.times.ms(depth)
        gain = self.averages.gain(depth, self._chosen) if depth else 0.0
        return (1 + gain) / ms if ms else 0.0

    def _count(self, rounds: Sequence[Outcome], step_ms: float | None) -> None:
        self.averages.add(rounds)
        self._num_drafted += 1
        plain_ms = self.times.ms(0)
        if step_ms is not None and plain_ms is not None:
            tokens = 1 + statistics.fmean(accepted for _, accepted in rounds)
            self._lost_ms += step_ms - tokens * plain_ms

    def _is_hopeless(self) -> bool:
        """From the second step on: the first one also reads the prompt."""
        worth = self.rule.hopeless * self.value(0)
        return self._chosen > 0 and self._num_steps > 1 and self.value(self._chosen) < worth

    def _decide(self) -> None:
        if self._chosen == 0:
            if len(self.candidates) > 1:
                self._choose(self.candidates[1])
                self._lost_ms = 0.0
                self.averages.start()
            return
        best = max(self.candidates, key=self.value)
        now = self.value(self._chosen)
        is_lost = 0 in self.candidates and now <= self.value(0)
        is_better = self.value(best) > (1 + self.rule.margin) * now
        self._choose(best if is_lost or is_better else self._chosen)
        if self._chosen == 0:
            self._wait = self._rest()

    def _rest(self) -> int:
        """Steps without drafts until the next trial."""
        plain_ms = self.times.ms(0)
        lost = self._lost_ms / plain_ms if plain_ms else 0.0
        return max(self.rule.num_rest, math.ceil(lost / self.rule.share))

    def _choose(self, depth: int) -> None:
        self.averages.gained = self.averages.gain(depth, self._chosen) if self._chosen else 0.0
        self._chosen, self._wait, self._num_steps = depth, self._interval, 0


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
