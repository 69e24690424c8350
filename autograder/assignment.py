"""A lesson and its solutions become one nbgrader source notebook, and that becomes the release.

The source notebook holds the answers; each answered cell keeps its blank in its metadata, under
`course.blank`. The release holds the blanks and nothing of the answers. Both directions live here,
so that only this file knows the key.
"""

from pathlib import Path

from nbformat import NotebookNode
from nbgrader.preprocessors import (
    ClearOutput,
    ComputeChecksums,
    LockCells,
    NbGraderPreprocessor,
)

from course.render import qmd
from course.render.document import unit_order
from course.render.notebook import to_notebook
from course.render.readable import readable

ROOT = Path(__file__).parents[1]
LANGUAGES = ("en", "zh")
ANSWERED = ("exercise", "answer")


class AssignmentError(ValueError):
    """A lesson and its solutions do not fit together; the message names file and label."""


def suffix(lang: str) -> str:
    """The file suffix of a language: .qmd for English, .zh.qmd for Chinese."""
    if lang not in LANGUAGES:
        raise AssignmentError(f"unknown language {lang!r}; one of: {', '.join(LANGUAGES)}")
    return ".qmd" if lang == "en" else f".{lang}.qmd"


def units(root: Path = ROOT) -> list[str]:
    """The units that have solutions, in order: ["lesson08", …]."""
    names = {path.stem.split("_")[0] for path in (root / "lessons").glob("*_*.qmd")}
    found = [name for name in names if (root / "solutions" / name / "rubric.yml").exists()]
    return sorted(found, key=unit_order)


def lesson_path(unit: str, lang: str, root: Path = ROOT) -> Path:
    """The one lesson file of a unit in a language."""
    end = suffix(lang)
    found = [
        path
        for path in sorted((root / "lessons").glob(f"{unit}_*{end}"))
        if len(path.suffixes) == end.count(".")
    ]
    if len(found) != 1:
        known = ", ".join(units(root)) or "none"
        raise AssignmentError(
            f"lessons/{unit}_*{end}: {len(found)} files found, one is needed (units: {known})"
        )
    return found[0]


def answers_path(unit: str, lang: str, root: Path = ROOT) -> Path:
    """The file with the answers of a unit in a language."""
    return root / "solutions" / unit / f"answers{suffix(lang)}"


def read_notebook(path: Path) -> NotebookNode:
    """A lesson's cells as a student sees them, without the `#|` lines that speak to Quarto."""
    nb = readable(to_notebook(qmd.parse(path)))
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.source = strip_options(cell.source)
    return nb


def strip_options(source: str) -> str:
    """Code without its leading `#|` lines."""
    lines = source.split("\n")
    first = next((n for n, line in enumerate(lines) if line[:2] != "#|" and line.strip()), 0)
    return "\n".join(lines[first:])


def role(cell: NotebookNode) -> str:
    """The cell's `course_role`, or "" for prose and examples."""
    return cell.metadata.get("course_role", "")


def read_answers(path: Path) -> dict[str, tuple[str, str]]:
    """A solutions file as {label: (cell type, text)}: code cells and written answers."""
    if not path.exists():
        raise AssignmentError(f"{path}: missing")
    doc = qmd.parse(path)
    found = [(cell.line, cell.label, "code", cell.source) for cell in doc.cells]
    found += [(div.line, div.label, "markdown", div.body.strip("\n")) for div in doc.answers]
    answers: dict[str, tuple[str, str]] = {}
    for line, label, kind, text in found:
        if not label:
            raise AssignmentError(f"{path}:{line}: a code cell without a label")
        if label in answers:
            raise AssignmentError(f"{path}:{line}: a second answer labelled {label!r}")
        answers[label] = (kind, text)
    return answers


def check_pairs(
    lesson: Path, blanks: dict[str, str], path: Path, answers: dict[str, tuple[str, str]]
) -> None:
    """Every blank {label: cell type} has its answer, of the same type, and the other way round."""
    for label, kind in blanks.items():
        if label not in answers:
            raise AssignmentError(f"{lesson}: {label!r} has no answer in {path}")
        if answers[label][0] != kind:
            raise AssignmentError(
                f"{path}: the answer {label!r} is {answers[label][0]}, the lesson's cell is {kind}"
            )
    for label in answers:
        if label not in blanks:
            raise AssignmentError(f"{path}: {label!r} answers nothing in {lesson}")


def nbgrader_metadata(cell: NotebookNode, grade_id: str, lesson: Path) -> dict:
    """nbgrader's own metadata (schema 3) of a cell, from its role."""
    graded = role(cell) in ("check", "answer")
    metadata = {
        "schema_version": 3,
        "grade_id": grade_id,
        "grade": graded,
        "solution": role(cell) in ANSWERED,
        "locked": role(cell) not in ANSWERED,
        "task": False,
        "cell_type": cell.cell_type,
    }
    if graded:
        try:
            metadata["points"] = float(cell.metadata["points"])
        except (KeyError, ValueError, TypeError):
            raise AssignmentError(f"{lesson}: {grade_id!r} needs a number of points") from None
    return metadata


def build_source(unit: str, lang: str, root: Path = ROOT) -> NotebookNode:
    """The instructor's notebook of a unit: every cell of the lesson, the answers in the blanks."""
    lesson, path = lesson_path(unit, lang, root), answers_path(unit, lang, root)
    nb = read_notebook(lesson)
    answers = read_answers(path)
    blanks = {cell.id: cell.cell_type for cell in nb.cells if role(cell) in ANSWERED}
    check_pairs(lesson, blanks, path, answers)
    for cell in nb.cells:
        cell.metadata["nbgrader"] = nbgrader_metadata(cell, cell.id, lesson)
        if cell.id in blanks:
            cell.metadata["course"] = {"blank": cell.source}
            cell.source = answers[cell.id][1]
    return nb


class RestoreBlanks(NbGraderPreprocessor):
    """Takes the place of nbgrader's ClearSolutions: the lesson's own blanks, not a stub."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict, index: int
    ) -> tuple[NotebookNode, dict]:
        """Put the blank back and drop the key that held it."""
        if role(cell) in ANSWERED:
            cell.source = cell.metadata.pop("course")["blank"]
        return cell, resources


# What generate_assignment does to the cells, in its order (it also writes the gradebook).
RELEASE_STEPS = (LockCells, RestoreBlanks, ClearOutput, ComputeChecksums)


def build_release(unit: str, lang: str, root: Path = ROOT) -> NotebookNode:
    """What a student gets: blanks instead of answers, locked cells, checksums. Writes nothing."""
    nb = build_source(unit, lang, root)
    for step in RELEASE_STEPS:
        nb, _ = step().preprocess(nb, {})
    return nb
