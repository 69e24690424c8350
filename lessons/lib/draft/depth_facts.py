"""What the adaptive depth knows of late: how many drafts are accepted, and what steps take."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

Outcome = tuple[int, int]  # of one request's round: drafts that were verified, those accepted


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
