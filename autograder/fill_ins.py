"""The fill-ins that the checks of a unit are tested with: wrong ones (mutants) and right ones.

mutants/<unit>/wrong/*.py must each lose points by a check, mutants/<unit>/right/*.py must each get
full marks, whatever the seed. A file is the whole text of one exercise cell, and its first line is
a comment that says what it is. It goes into the cell whose names it defines; the other exercise
cells hold the solution.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nbformat import NotebookNode

from autograder import assignment, intake
from autograder.checks.figures import Figures
from autograder.checks.graded import no_figures
from autograder.judge import cells_to_run, run_checks
from autograder.sandbox.launcher import Limits
from autograder.sandbox.session import Sandbox
from autograder.verdict import Verdict

MUTANTS = Path(__file__).parent / "mutants"
REJECTED, ACCEPTED, UNDECIDED = "rejected", "full marks", "undecided"


@dataclass(frozen=True)
class FillIn:
    """One file under mutants/."""

    unit: str
    kind: Literal["wrong", "right"]
    path: Path

    @property
    def name(self) -> str:
        """Such as wrong/cost_clamps."""
        return f"{self.kind}/{self.path.stem}"

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def what(self) -> str:
        """Its first line in words."""
        return self.text.splitlines()[0].removeprefix("# ").removeprefix("Right: ")

    @property
    def expected(self) -> str:
        return REJECTED if self.kind == "wrong" else ACCEPTED


def fill_ins(unit: str) -> list[FillIn]:
    """All of a unit, the wrong ones first."""
    wrong = [FillIn(unit, "wrong", path) for path in sorted((MUTANTS / unit).glob("wrong/*.py"))]
    return wrong + [
        FillIn(unit, "right", path) for path in sorted((MUTANTS / unit).glob("right/*.py"))
    ]


@functools.cache
def released(unit: str) -> NotebookNode:
    """The released notebook; nobody changes it."""
    return assignment.build_release(unit, "en")


def cell_of(fill_in: FillIn) -> str:
    """The label of the exercise cell that a fill-in belongs to."""
    return exercise_for(released(fill_in.unit), fill_in.text).id


def exercise_for(notebook: NotebookNode, text: str) -> NotebookNode:
    """The exercise cell with the most names that `text` defines too."""
    names = set(intake.defined_names(text))
    exercises = [cell for cell in notebook.cells if assignment.role(cell) == "exercise"]
    return max(exercises, key=lambda c: len(names & set(intake.defined_names(c.source))))


def filled(unit: str, text: str) -> NotebookNode:
    """A released notebook with the solution's code, and `text` in the cell it belongs to."""
    notebook = copy.deepcopy(released(unit))
    answers = assignment.read_answers(assignment.answers_path(unit, "en"))
    exercise_for(notebook, text).source = text
    for cell, blank in zip(notebook.cells, released(unit).cells, strict=True):
        if assignment.role(cell) == "exercise" and cell.source == blank.source:
            cell.source = answers[cell.id][1]
    return notebook


def judged(
    unit: str,
    text: str,
    seeds: Iterable[int],
    limits: Limits,
    figures: Callable[[], Figures] = no_figures,
    skip: Collection[str] = (),
) -> Iterator[list[Verdict]]:
    """The verdicts on a fill-in for each seed, on one start of the worker.

    Each seed has the limits of a whole notebook, so that none is judged by what others took.
    """
    notebook = filled(unit, text)
    with Sandbox(limits) as box:
        box.run_cells(cells_to_run(notebook, released(unit)))
        for seed in seeds:
            box.judge_again()
            yield run_checks(box, unit, released(unit), seed, figures, skip=skip)


def describe(verdicts: Collection[Verdict]) -> str:
    """Full marks, rejected by a check that is worth points, or something that decides nothing."""
    if all(verdict.verdict == "pass" for verdict in verdicts):
        return ACCEPTED
    bad = [v for v in verdicts if v.verdict in ("fail", "invalid") and v.points < v.max]
    return REJECTED if bad else UNDECIDED
