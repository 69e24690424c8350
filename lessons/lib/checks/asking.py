"""What every check shares: turn an Outcome into a plain value, or into a reason to reject.

A check is straight-line code. Whatever is wrong raises Rejected; the judge makes it a verdict.
"""

from __future__ import annotations

import builtins
import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lessons.lib.checks.outcome import Outcome, Student

VerdictName = Literal["pass", "fail", "invalid", "inconclusive", "not_measured"]
REL_TOL = 1e-9
BLANK = "______"
HINT_RUN = "hint-run"  # on code that does not run, or not to its end
# What a student may ask about a worker that was lost.
ADVICE = {
    "timeout": "",
    "died": ": does it call exit, or take too much memory?",
    "memory": ", all its processes together",
    "garbled": ": does it write to files it did not open?",
}


class Rejected(Exception):
    """A check's verdict other than a full pass, with the reason and the points still earned.

    `hint` is an anchor of the lesson, where there is advice on this mistake; "" leads to the check.
    `values` are figures that mattered, for the record.
    """

    def __init__(
        self,
        reason: str,
        verdict: VerdictName = "fail",
        points: float = 0.0,
        hint: str = "",
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason, self.verdict, self.points = reason, verdict, points
        self.hint, self.values = hint, dict(values or {})


class Passed(str):
    """The reason of a pass, together with figures that mattered."""

    values: dict[str, Any]

    @classmethod
    def with_values(cls, reason: str, values: Mapping[str, Any]) -> Passed:
        """A reason that carries `values`."""
        passed = cls(reason)
        passed.values = dict(values)
        return passed


@dataclass(frozen=True)
class Question:
    """A call of a student's function, and how to name it in a reason.

    `is_public`: the inputs are printed in the lesson, so the student may see what came of them.
    After a hidden input neither the value nor the text of an exception is shown, because a
    student's code could put the input into it.
    """

    student: Student
    cell: str
    is_public: bool = False

    def call(self, name: str, *args: Any, **kwargs: Any) -> Outcome:
        """The outcome of a call that returned a value. Raises Rejected."""
        outcome = self.student.call(name, *args, **kwargs)
        if not outcome.is_value:
            raise self.rejected(name, outcome)
        return outcome

    def number(self, name: str, *args: Any) -> float:
        """A finite number that a function returned. Raises Rejected."""
        return as_number(self.call(name, *args).value, name)

    def must_refuse(self, name: str, what: str, *args: Any) -> None:
        """Raises Rejected, which says `what` the input is, unless the call raises ValueError."""
        outcome = self.student.call(name, *args)
        if outcome.is_value or outcome.kind == "refused":
            raise Rejected(f"{name} must raise ValueError for {what}")
        if outcome.kind != "error" or outcome.error_type == "NameError":
            raise self.rejected(name, outcome)
        if "ValueError" not in outcome.bases:
            raise Rejected(f"{name} must raise ValueError for {what}, not {built_in_name(outcome)}")

    def rejected(self, name: str, outcome: Outcome) -> Rejected:
        """Why an outcome is not a value, in words a student can act on."""
        if outcome.is_lost:
            reason = f"{name} {outcome.detail}{ADVICE[outcome.kind]}"
            return Rejected(reason, "invalid", hint=HINT_RUN)
        if outcome.kind == "missing":
            return Rejected(self._why_missing(name), hint=HINT_RUN)
        if outcome.kind == "refused":
            what = f" ({outcome.detail})" if self.is_public else ""
            return Rejected(f"{name} returned something that is not plain data{what}")
        if outcome.error_type == "NameError" and BLANK in outcome.detail:
            return Rejected(f"the blank in cell {self.cell} is not filled in", hint=HINT_RUN)
        return Rejected(f"{name} raised {self._error_text(outcome)}", hint=HINT_RUN)

    def _error_text(self, outcome: Outcome, is_public: bool | None = None) -> str:
        where = f" (line {outcome.line} of your cell)" if 0 < outcome.line < 10_000 else ""
        if not (self.is_public if is_public is None else is_public):
            return f"{built_in_name(outcome)}{where}"
        text = f": {outcome.detail[:200]}" if outcome.detail else ""
        return f"{outcome.error_type}{text}{where}"

    def _why_missing(self, name: str) -> str:
        ran = self.student.cell_outcomes.get(self.cell)
        if ran is not None and ran.kind == "error":
            error = self._error_text(ran, is_public=True)
            return f"{name} is not defined: cell {self.cell} stopped with {error}"
        if ran is not None and ran.is_lost:
            return f"{name} is not defined: cell {self.cell} {ran.detail}{ADVICE[ran.kind]}"
        return f"{name} is not defined: define it in cell {self.cell}"


def try_all(parts: Iterable[Callable[..., None]], *arguments: Any) -> None:
    """Run every part; one rejection names all that failed, in order, each reason once.

    A rejection other than a fail ends it at once: the worker is lost, or nothing was measured.
    """
    reasons = []
    for part in parts:
        try:
            part(*arguments)
        except Rejected as rejected:
            if rejected.verdict != "fail":
                raise
            reasons.append(rejected.reason)
    if reasons:
        raise Rejected("; ".join(dict.fromkeys(reasons)))


def built_in_name(outcome: Outcome) -> str:
    """The built-in exception that was raised or derived from.

    A class of the student's own may carry a hidden input in its name; this one cannot.
    """
    for name in (outcome.error_type, *outcome.bases):
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return name
    return "an exception"


def as_number(value: Any, name: str) -> float:
    """A finite float from a plain value. Raises Rejected, which names the type."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(f"{name} returned {a_type(value)}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Rejected(f"{name} returned {number}, not a finite number")
    return number


def a_type(value: Any) -> str:
    """A value's type in words."""
    if value is None:
        return "None (is a return missing?)"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def is_close(got: float, expected: float, rel_tol: float = REL_TOL) -> bool:
    """Equal up to rounding; for figures of the size of one, which 0 never is."""
    return math.isclose(got, expected, rel_tol=rel_tol)


def inputs_of(seed: int | str, unit: str, check_id: str) -> random.Random:
    """The only source of a check's inputs: fixed by the seed, the unit and the check."""
    return random.Random(f"{seed}/{unit}/{check_id}")


@dataclass(frozen=True)
class Submission:
    """What a check may use: the student to ask and its own random numbers.

    `is_public`: the inputs are not secret, so reasons may quote them.
    """

    student: Student
    rng: random.Random
    is_public: bool = False

    def ask(self, cell: str, is_public: bool | None = None) -> Question:
        """How to ask the functions of an exercise cell; `is_public` for inputs of the lesson."""
        return Question(self.student, cell, self.is_public if is_public is None else is_public)
