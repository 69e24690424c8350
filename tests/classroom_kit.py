"""What the classroom tests share: figures instead of a measurement, and ways to hand in."""

import copy
from collections.abc import Callable
from pathlib import Path

import nbformat

from autograder import assignment
from autograder.checks import figures
from autograder.classroom import Classroom

UNIT = "lesson08"
WRITTEN = "The proposer owns the draft state, the verifier owns nothing."

Change = Callable[[nbformat.NotebookNode, dict[str, nbformat.NotebookNode]], None]


def fixed_figures() -> figures.Figures:
    """Two methods that are far apart, so that every choice among them is clear."""

    def method(name: str, rates: list[float], verify_ms: float) -> dict:
        times = {"draft_ms": 0.1, "verify_ms": verify_ms, "overhead_ms": 1.0}
        return {"name": name, "conditional_acceptance": rates, **times, "extra_memory_gb": 0.01}

    methods = [method("ngram-2", [0.6, 0.5], 20.0), method("ngram-4", [0.6, 0.5, 0.4, 0.3], 30.0)]
    return figures.Figures("cpu (fixed figures)", 15.0, methods)


def code_answers(lang: str = "en") -> dict[str, str]:
    """The solution's code by label."""
    answers = assignment.read_answers(assignment.answers_path(UNIT, lang))
    return {label: text for label, (kind, text) in answers.items() if kind == "code"}


def fill(nb: nbformat.NotebookNode, cells: dict[str, nbformat.NotebookNode]) -> None:
    """Answer everything rightly, in the student's own words."""
    for label, text in code_answers().items():
        cells[label].source = text
    for label in ("q1", "q2", "q3"):
        cells[label].source = WRITTEN


def hand_in(
    classroom: Classroom, student: str, *changes: Change, name: str = f"{UNIT}.ipynb"
) -> Path:
    """Put a changed copy of the release into submitted/."""
    nb = nbformat.read(classroom.notebook("release", UNIT), as_version=4)
    for change in changes:
        change(nb, {cell.id: cell for cell in nb.cells})
    folder = classroom.path / "submitted" / student / UNIT
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(nbformat.v4.writes(nb), encoding="utf-8")
    return path


def paste_twice(nb: nbformat.NotebookNode, cells: dict[str, nbformat.NotebookNode]) -> None:
    """The accident that stops a whole class in stock nbgrader."""
    nb.cells += [copy.deepcopy(cells["main"]), copy.deepcopy(cells["acceptance_cost_model"])]


def cells_of(path: Path) -> dict[str, nbformat.NotebookNode]:
    """A notebook's cells by id."""
    return {cell.id: cell for cell in nbformat.read(path, as_version=4).cells}
