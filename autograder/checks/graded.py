"""A submission as the grader's own checks see it: beside the student, what the grader measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autograder.checks.figures import Figures
from lessons.lib.checks.asking import Submission


def no_figures() -> Figures:
    """For a unit that reads none."""
    raise AssertionError("a unit whose checks read figures says so: NEEDS_FIGURES = True")


@dataclass(frozen=True)
class Graded(Submission):
    """figures: the methods measured on this machine; raises FiguresError where there are none."""

    figures: Callable[[], Figures] = no_figures
