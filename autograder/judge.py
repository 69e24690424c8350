"""From a notebook and a secret seed to verdicts.

Touches no gradebook and runs no student code in this process.
"""

import functools
import importlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from nbformat import NotebookNode

from autograder import hints, intake
from autograder.checks import figures as live_figures
from autograder.checks.figures import Figures
from autograder.checks.graded import Graded
from autograder.sandbox.launcher import Limits, SandboxError
from autograder.sandbox.session import Cell, Sandbox, isolation_name
from autograder.verdict import Judgement, Verdict
from course.render.document import unit_order
from lessons.lib.checks.asking import Passed, Rejected, inputs_of

CHECKS = Path(__file__).parent / "checks"
UNIT = re.compile(r"lesson\d\d|lab\d\d[a-z]")
LIVE = "live"  # in every unit the check that runs the engine
NOT_WRITTEN = "the answer is empty or as released: nothing to grade"
WRITTEN = "written answer: graded by a person"


class JudgeError(ValueError):
    """The course itself is inconsistent or the unit unknown; the message says what to do."""


def judge(
    notebook: Mapping[str, Any],
    unit: str,
    seed: int,
    *,
    figures: Callable[[], Figures] = live_figures.measured,
    limits: Limits | None = None,
    isolation: str | None = None,
    skip: Collection[str] = (),
) -> Judgement:
    """Judge a submission: all checks of the unit in the order of its notebook.

    `notebook` is a NotebookNode or plain JSON data, cleaned already or not. `figures` gives what
    the grader measured; `limits` and `isolation` are for tests; `skip` names checks that are made
    elsewhere. Raises JudgeError for an unknown unit.
    """
    checks_of(unit)
    release = _release(unit, _language(notebook))
    cleaned, messages = intake.clean_notebook(notebook, release)
    with Sandbox(limits, isolation) as box:
        broken = _run(box, cells_to_run(cleaned, release))
        verdicts = run_checks(box, unit, release, seed, figures, broken, skip)
        name = isolation_name(box.isolation)
    written = map(manual_verdict, written_answers(cleaned), written_answers(release))
    verdicts += [replace(v, hint=hints.fitting(v, release)) for v in written]
    return Judgement(unit, name, tuple(verdicts), tuple(messages))


def run_checks(
    box: Sandbox,
    unit: str,
    release: NotebookNode,
    seed: int,
    figures: Callable[[], Figures],
    broken: str = "",
    skip: Collection[str] = (),
) -> list[Verdict]:
    """The verdicts of the checks that need no person, on a sandbox that has run the cells.

    `broken`: why the cells could not be run, through no fault of the student's. `skip`: checks
    to leave out, where only a part of the judgement is wanted.
    """
    checks = checks_of(unit)
    verdicts = []
    for check_id, check in checks.CHECKS.items():
        if check_id in skip:
            continue
        graded = Graded(box, inputs_of(seed, unit, check_id), figures=figures)
        run = functools.partial(check, graded)
        verdict = _verdict(check_id, points_of(release, check_id), run, broken)
        verdicts.append(replace(verdict, hint=hints.fitting(verdict, release)))
    return verdicts


def units() -> list[str]:
    """The units that have checks, in order: the files of `checks/` that are named like a unit."""
    found = [path.stem for path in CHECKS.glob("*.py") if UNIT.fullmatch(path.stem)]
    return sorted(found, key=unit_order)


def checks_of(unit: str) -> ModuleType:
    """The trusted checks of a unit: CHECKS, by the label of the notebook's check cell.

    NEEDS_FIGURES = True asks for measured figures; SLOW names the checks that take seconds.
    Raises JudgeError.
    """
    if unit not in units():
        raise JudgeError(f"unknown unit {unit!r}: there are checks for {', '.join(units())}")
    return importlib.import_module(f"autograder.checks.{unit}")


def needs_figures(unit: str) -> bool:
    """Whether the engine has to be measured before this unit is judged."""
    return getattr(checks_of(unit), "NEEDS_FIGURES", False)


def card_checks(unit: str) -> frozenset[str]:
    """The checks of a unit that have to be made where its figures were measured."""
    return frozenset({LIVE} & set(checks_of(unit).CHECKS)) if needs_figures(unit) else frozenset()


def slow_checks(unit: str) -> frozenset[str]:
    """The checks of a unit that run the model."""
    return frozenset(getattr(checks_of(unit), "SLOW", ()))


@functools.cache
def _release(unit: str, lang: str) -> NotebookNode:
    """The released notebook, which nothing here changes."""
    from autograder.assignment import build_release  # pulls nbgrader in: only when judging

    return build_release(unit, lang)


def _language(notebook: Mapping[str, Any]) -> str:
    """The language a notebook was released in; it changes texts only, so a guess does no harm."""
    from autograder.assignment import LANGUAGES

    metadata = notebook.get("metadata")
    course = metadata.get("course") if isinstance(metadata, dict) else None
    lang = course.get("lang") if isinstance(course, dict) else None
    return lang if lang in LANGUAGES else "en"


def cells_to_run(cleaned: NotebookNode, release: NotebookNode) -> list[Cell]:
    """Setup, exercise and the student's own code cells, in notebook order.

    The names that a released exercise defines are pinned: scratch cells cannot rebind them.
    """
    pins = {intake.grade_id(c): intake.defined_names(c.source) for c in release.cells}
    cells = []
    for cell in cleaned.cells:
        if cell.cell_type != "code":
            continue
        if intake.is_answer(cell):
            name = intake.grade_id(cell)
            cells.append(Cell(name, "exercise", cell.source, pins[name]))
        elif cell.metadata.get("course_role") in ("setup", "extra"):
            cells.append(Cell(str(cell.id), cell.metadata.course_role, cell.source))
    return cells


def _run(box: Sandbox, cells: list[Cell]) -> str:
    """Run the cells; the reason why nothing can be judged, or ""."""
    for attempt in (1, 2):
        try:
            box.run_cells(cells)
            return ""
        except SandboxError as error:
            if attempt == 2:
                return f"the grader's sandbox failed: {error}; grade this notebook again"
    raise AssertionError("unreachable")


def _verdict(check_id: str, points: float, run: Callable[[], str], broken: str) -> Verdict:
    """A check's outcome as a verdict. A failing sandbox is never the student's zero."""
    if broken:
        return Verdict(check_id, 0.0, points, "not_measured", broken, hints.NOT_MEASURED)
    try:
        reason = run()
    except Rejected as rejected:
        hint = rejected.hint or (hints.NOT_MEASURED if rejected.verdict == "not_measured" else "")
        earned, told = rejected.points * points, rejected.reason
        return Verdict(check_id, earned, points, rejected.verdict, told, hint, rejected.values)
    except SandboxError as error:
        reason = f"the grader's sandbox failed: {error}; grade this notebook again"
        return Verdict(check_id, 0.0, points, "not_measured", reason, hints.NOT_MEASURED)
    values = reason.values if isinstance(reason, Passed) else {}
    return Verdict(check_id, points, points, "pass", str(reason), values=values)


def points_of(release: NotebookNode, check_id: str) -> float:
    """What a check is worth: the points of the locked cell of its name. Raises JudgeError."""
    for cell in release.cells:
        if intake.grade_id(cell) == check_id and cell.metadata.nbgrader.grade:
            return float(cell.metadata.nbgrader.points)
    raise JudgeError(f"the released notebook has no graded cell {check_id}")


def written_answers(notebook: NotebookNode) -> list[NotebookNode]:
    """The written answers: cells that are both graded and the student's."""
    return [
        cell
        for cell in notebook.cells
        if intake.is_answer(cell) and cell.metadata.nbgrader.get("grade")
    ]


def manual_verdict(answer: NotebookNode, blank: NotebookNode) -> Verdict:
    """A written answer waits for a person; an untouched one is a zero that needs none."""
    name, points = intake.grade_id(answer), float(blank.metadata.nbgrader.points)
    text = intake.normal(answer.source)
    if not text or text == intake.normal(blank.source):
        return Verdict(name, 0.0, points, "fail", NOT_WRITTEN, hints.WRITTEN)
    return Verdict(name, 0.0, points, "not_measured", WRITTEN, hints.WRITTEN)
