"""The pass rule: from the marks of one student to pass, fail or waiting.

A student passes with enough points, every required check passed, every written answer graded above
zero by a person, and no veto. What nobody has decided yet is waited for: it counts neither as zero
nor as full marks. Only what nothing still open can mend is called a failure.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from autograder.rubric import vetoes_in


@dataclass(frozen=True)
class Mark:
    """One graded cell of one student. `score` is None while a person has to decide.

    `verdict` is the machine's; `by_person` says that a person's decision stands over it.
    """

    id: str
    max: float
    score: float | None
    verdict: str = ""
    by_person: bool = False
    comment: str = ""
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Outcome:
    """The line of one student: `result` is pass, fail or waiting, and `why` says for what.

    `open` is what has to be decided before the points are final, whatever the result: marks by
    what they wait for. `seed` is which of the classroom's secret seeds the grade was made with, 0
    where that is not known.
    """

    student: str
    result: str
    why: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    isolation: str = ""
    open: dict[str, list[str]] = field(default_factory=dict)
    seed: int = 0

    @property
    def awaits(self) -> list[str]:
        """What is open, in words; empty when the points are final."""
        return grouped(self.open)

    @property
    def points(self) -> float:
        """The points decided so far."""
        return sum(mark.score or 0.0 for mark in self.marks)


def nothing_yet(student: str, why: str) -> Outcome:
    """The line of a student without marks."""
    return Outcome(student, "waiting", [why], open={why: []})


def decide(student: str, marks: list[Mark], rubric: dict[str, Any], isolation: str = "") -> Outcome:
    """Apply the rubric's pass rule to the marks of one student."""
    rule = rubric["pass_rule"]
    waiting, failures = defaultdict(list), defaultdict(list)
    for mark in marks:
        if mark.score is None:
            waiting[open_state(mark, rule)].append(mark.id)
        if mark.id in rule["required_checks"] and not may_hold(mark):
            failures["invalid" if mark.verdict == "invalid" else "failed"].append(mark.id)
        if mark.id in rule["manual_above_zero"] and mark.score == 0:
            failures["without points"].append(mark.id)
        known, unknown = vetoes_in(mark.comment, rubric)
        for name in known:
            failures[f"vetoed ({name})"].append(mark.id)
        for name in unknown:
            waiting[f"vetoed by {name!r}, which the rubric does not know"].append(mark.id)
    why = grouped(failures)
    best = sum(mark.max if mark.score is None else mark.score for mark in marks)
    if best < rule["min_total"]:
        why.append(f"at most {best:g} of {sum(mark.max for mark in marks):g} points")
    if why:
        return Outcome(student, "fail", why, marks, isolation, dict(waiting))
    result = "waiting" if waiting else "pass"
    return Outcome(student, result, grouped(waiting), marks, isolation, dict(waiting))


def grouped(names: dict[str, list[str]]) -> list[str]:
    """{"failed": ["main", "live"]} as ["main, live failed"]."""
    return [f"{', '.join(ids)} {what}".strip() for what, ids in names.items()]


def open_state(mark: Mark, rule: dict[str, Any]) -> str:
    """Why a mark is still open."""
    if mark.by_person:
        return "changed after grading"
    if mark.id not in rule["manual_above_zero"] and mark.verdict:
        return mark.verdict.replace("_", " ")
    return "ungraded"


def may_hold(mark: Mark) -> bool:
    """Whether a required check is passed, or still open."""
    if mark.score is None or mark.verdict == "pass":
        return True
    # A person may settle what the machine could not, or overrule it with full marks.
    unsettled = mark.verdict in ("inconclusive", "not_measured")
    return mark.by_person and mark.score == mark.max and (unsettled or mark.max > 0)
