"""How deep to draft: a controller that looks back at what was accepted, for chains of any drafter.

Not to be confused with DSpark, which looks ahead: it drafts whole blocks and asks of each draft how
likely it is to survive. This one knows a moving average of accepted drafts and nothing of the next
block; in return it asks nothing of the drafter, and it saves the drafting too.
Rule and defaults in the style of SGLang's `--speculative-adaptive`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kernels.runtime import InputError

DEFAULT_CANDIDATES: dict[int, tuple[int, ...]] = {1: (1, 3, 7), 8: (0, 1, 3), 32: (0, 1), 64: (0,)}


class DepthPolicy(Protocol):
    """Decides the depth of a step before anything is drafted for it."""

    def depth(self, batch: int) -> int:
        """Most drafts of each request in a step in which `batch` requests decode."""
        ...

    def observe(self, batch: int, accepted: Sequence[int]) -> None:
        """What came of that step: accepted drafts of each request that had any."""
        ...


@dataclass(frozen=True)
class DepthRule:
    """The constants of the controller.

    weight           of the newest step in the moving average
    num_warm_up      steps before the first decision
    interval         steps between decisions
    up_hysteresis, down_hysteresis   are added to the thresholds, in drafts: a negative one for
                     going down leaves a gap between the two in which nothing changes
    num_rest         steps at depth 0 before the next candidate is tried for an interval; SGLang
                     rests for one interval, which spends half the time on a drafter that fails
    """

    weight: float = 0.2
    num_warm_up: int = 10
    interval: int = 5
    up_hysteresis: float = 0.0
    down_hysteresis: float = -0.25
    num_rest: int = 50

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise InputError(f"adaptive weight must be above 0 and at most 1, got {self.weight}")
        if self.num_warm_up < 0 or self.interval < 1 or self.num_rest < 1:
            raise InputError(
                "adaptive depth: num_warm_up must be 0 or more, interval and num_rest 1 or more, "
                f"got {self.num_warm_up}, {self.interval} and {self.num_rest}"
            )
        if self.down_hysteresis > self.up_hysteresis:
            raise InputError(
                f"down_hysteresis {self.down_hysteresis} is above up_hysteresis "
                f"{self.up_hysteresis}: the depth would go up and down at once"
            )

    def up_threshold(self, depth: int) -> float:
        """Average above which a candidate deeper than `depth` is taken: nearly all is accepted."""
        return depth - 0.5 + self.up_hysteresis

    def down_threshold(self, shallower: int) -> float:
        """Average at or below which the candidate `shallower` loses next to nothing."""
        return (shallower - 0.5 if shallower else 0.5) + self.down_hysteresis


@dataclass
class DepthController:
    """The depth of one class of batch sizes. It owns the average; candidates ascend."""

    candidates: Sequence[int]
    rule: DepthRule
    _index: int = field(init=False)
    _num_steps: int = field(init=False, default=0)  # since the warm-up began or the last decision

    def __post_init__(self) -> None:
        self._index = len(self.candidates) // 2
        self.average = max(self.depth - 1.0, 0.0)  # neutral: it neither rises nor falls by itself
        self._wait = self.rule.num_warm_up + self.rule.interval

    @property
    def depth(self) -> int:
        """The candidate in force."""
        return self.candidates[self._index]

    def observe(self, accepted: Sequence[int]) -> None:
        """Accepted drafts of each request of a step at this depth; decides when it is time."""
        if self.depth:
            if not accepted:
                return  # nobody found anything to draft: no news, and no cost either
            newest = statistics.fmean(accepted)
            self.average += self.rule.weight * (newest - self.average)
        self._num_steps += 1
        if self._num_steps >= self._wait:
            self._num_steps = 0
            self._decide()
            self._wait = self.rule.interval if self.depth else self.rule.num_rest

    def _decide(self) -> None:
        last = len(self.candidates) - 1
        if self.depth == 0:
            self._index = min(self._index + 1, last)  # the average is old news: try
            return
        before = self._index
        while self._index and self.average <= self.rule.down_threshold(
            self.candidates[self._index - 1]
        ):
            self._index -= 1
        if self._index < before:
            return
        while self._index < last and self.average > self.rule.up_threshold(self.depth):
            self._index += 1


class AdaptiveDepth:
    """A DepthPolicy: one controller for each class of batch sizes.

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
        rule = rule or DepthRule()
        self._controllers = {
            batch: DepthController(sorted(set(depths)), rule)
            for batch, depths in candidates.items()
        }

    def depth(self, batch: int) -> int:
        """The depth in force for steps of this size."""
        return self._controller(batch).depth

    def observe(self, batch: int, accepted: Sequence[int]) -> None:
        """Count what the step accepted for its class of batch sizes."""
        self._controller(batch).observe(accepted)

    def _controller(self, batch: int) -> DepthController:
        """Of the nearest size; between two of them the larger, whose depths are the cautious."""
        nearest = min(self._controllers, key=lambda size: (abs(size - batch), -size))
        return self._controllers[nearest]
