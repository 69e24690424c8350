"""Which drafts a step verifies: a budget from old confidences, shared out by current ones.

Serving engines compute the budget while the previous step still runs, so the newest confidences it
can have are two steps old. That is also what makes a free choice of the budget lossless: it cannot
see the drafts it decides about. Must hold for that: no random number that drew a draft two steps
ago draws one now (see DSparkProposer).
Rule: arXiv 2607.05147; modes and delay as in SGLang's verify planner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from kernels.runtime import InputError
from lessons.lib.draft.dspark_budget import Confidences

DELAY = 2  # steps between a confidence and the first budget it may enter
Key = TypeVar("Key", bound=Hashable)


class VerifyMode(StrEnum):
    """STATIC verifies whole blocks. COMPACT verifies what the budget admits. CAP_ACCEPT computes
    whole blocks but accepts only what the budget admits: it saves nothing and shows what the budget
    alone does to acceptance."""

    STATIC = "static"
    CAP_ACCEPT = "cap-accept"
    COMPACT = "compact"


@dataclass(frozen=True)
class VerifyLength:
    """Of one block: drafts to compute, and how many of them may be accepted at most."""

    num_rows: int
    num_acceptable: int


class LengthRule(Protocol):
    """What chooses the lengths of a step; `BudgetRule` is the engine's own."""

    def lengths(self, old: Sequence[Confidences], now: Sequence[Confidences]) -> list[int]:
        """Drafts of each request to verify. `old` is of DELAY steps ago, as long as `now`. Must
        hold: whether draft j is verified depends on nothing of `now` behind c_j."""
        ...


class ConfidenceRing:
    """Confidences of the last steps. A request is known by an object of its own, not by a slot or a
    name that another one may get later."""

    def __init__(self) -> None:
        self._steps: deque[dict[Hashable, Confidences]] = deque(maxlen=DELAY)

    def push(self, confidences: Mapping[Any, Confidences]) -> None:
        """One step is drafted; the oldest one is forgotten."""
        self._steps.append(dict(confidences))

    def stale(self, request: Hashable, count: int) -> list[float]:
        """`count` confidences of DELAY steps ago; 1 where there are none, as for a new request."""
        known = self._steps[0].get(request, ()) if len(self._steps) == DELAY else ()
        return [*known[:count], *[1.0] * (count - len(known))]


class VerifyPlanner:
    """Owns the ring; one `plan` a step, for all requests that decode in it."""

    def __init__(self, rule: LengthRule, mode: VerifyMode = VerifyMode.COMPACT) -> None:
        """rule: must cover every batch and budget that may come."""
        self._rule = rule
        self.mode = mode
        self._ring = ConfidenceRing()

    def plan(self, blocks: Mapping[Key, Confidences | None]) -> dict[Key, VerifyLength]:
        """blocks: for each request the confidences of the block it just drafted.

        InputError where a block has none: without a confidence head only `static` is possible.
        """
        confidences: dict[Key, Confidences] = {}
        for request, block in blocks.items():
            if block is None:
                raise InputError(
                    f"verify mode {self.mode} needs confidences, the drafter gives none; "
                    "use mode static or a drafter with a confidence head"
                )
            confidences[request] = block
        admitted = self._admit(confidences)
        self._ring.push(confidences)
        return {
            request: self._length(len(block), number)
            for (request, block), number in zip(confidences.items(), admitted, strict=True)
        }

    def _admit(self, confidences: Mapping[Any, Confidences]) -> list[int]:
        if self.mode is VerifyMode.STATIC or not confidences:
            return [len(block) for block in confidences.values()]
        old = [self._ring.stale(request, len(block)) for request, block in confidences.items()]
        return self._rule.lengths(old, list(confidences.values()))

    def _length(self, drafted: int, admitted: int) -> VerifyLength:
        computed = admitted if self.mode is VerifyMode.COMPACT else drafted
        return VerifyLength(computed, admitted)
