"""What a check may say about a submission, and the sum of it for one notebook."""

from dataclasses import dataclass, field
from typing import Any, get_args

from lessons.lib.checks.asking import VerdictName

VERDICTS: tuple[str, ...] = get_args(VerdictName)


@dataclass(frozen=True)
class Verdict:
    """One check's outcome.

    `points` lie in [0, `max`]. Only pass, fail and invalid are scores; inconclusive and
    not_measured ask for a person and must never be shown as zero or as full marks.
    `reason` is one sentence that a student can act on. `hint` is the anchor of the lesson to read,
    the same in every language; there is one unless the check is passed. `values` are the figures
    that mattered, as plain data; none of a hidden input.
    """

    id: str
    points: float
    max: float
    verdict: VerdictName
    reason: str
    hint: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"check {self.id}: unknown verdict {self.verdict!r}")
        # Written so that NaN fails too.
        if not 0.0 <= self.points <= self.max:
            raise ValueError(f"check {self.id}: {self.points} points outside 0..{self.max}")

    @property
    def is_scored(self) -> bool:
        """True when the points are final, False when a person has to decide."""
        return self.verdict in ("pass", "fail", "invalid")

    def to_json(self) -> dict[str, Any]:
        """The plain dictionary printed by `python -m autograder grade --json`."""
        return {
            "id": self.id,
            "points": self.points,
            "max": self.max,
            "verdict": self.verdict,
            "reason": self.reason,
            "hint": self.hint,
            "values": self.values,
        }


@dataclass(frozen=True)
class Judgement:
    """All checks of one submission, in the unit's fixed order.

    `isolation` is "bubblewrap" or "rlimits", with "+cgroup" where that bounds memory.
    `messages` are what intake had to repair.
    """

    unit: str
    isolation: str
    checks: tuple[Verdict, ...]
    messages: tuple[str, ...] = field(default=())

    @property
    def total(self) -> float:
        return round(sum(check.points for check in self.checks), 6)

    @property
    def max(self) -> float:
        return sum(check.max for check in self.checks)

    def __getitem__(self, check_id: str) -> Verdict:
        for check in self.checks:
            if check.id == check_id:
                return check
        raise KeyError(check_id)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Judgement":
        """What `to_json` gave; the messages are not part of it."""
        checks = tuple(Verdict(**check) for check in data["checks"])
        return cls(data["unit"], data["isolation"], checks)

    def to_json(self) -> dict[str, Any]:
        """Plain data with exactly the keys unit, total, max, isolation, checks."""
        return {
            "unit": self.unit,
            "total": self.total,
            "max": self.max,
            "isolation": self.isolation,
            "checks": [check.to_json() for check in self.checks],
        }
