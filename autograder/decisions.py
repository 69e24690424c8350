"""A person's marks survive grading again, and are asked for anew only when their ground changed.

nbgrader keeps the mark but asks for every one of them again. Here a mark stays decided when what it
was given for is the same: the text of a written answer, or the machine's verdict on a check. The
grounds of the last grading are kept beside its status, where nbgrader deletes nothing.
"""

import json
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.api import Grade
from nbgrader.utils import is_solution

from autograder.status import status_file, write_whole
from autograder.verdict import Verdict

Grounds = dict[str, str]


def grounds_file(classroom: Path, unit: str, student: str) -> Path:
    """Where the grounds of a student's last grading are kept."""
    return status_file(classroom, unit, student).with_suffix(".grounds")


def read_grounds(file: Path) -> Grounds:
    """{grade id: ground}; empty where nothing, or only something damaged, was kept."""
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def write_grounds(file: Path, grounds: Grounds) -> None:
    """Keep the grounds of this grading for the next one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(grounds, ensure_ascii=False))


def ground_of(cell: NotebookNode, verdict: Verdict | None) -> str:
    """What a person's mark on a graded cell rests on."""
    if is_solution(cell):
        return str(cell.source)
    return verdict.verdict if verdict else ""


def needs_person(grade: Grade, is_scored: bool, is_same_ground: bool) -> bool:
    """Whether a person has to decide: nobody has, or something else was there when they did."""
    if grade.manual_score is None:
        return not is_scored
    return bool(grade.needs_manual_grade) or not is_same_ground
