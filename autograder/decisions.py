"""A person's marks survive grading again, and are asked for anew only when their ground changed.

nbgrader keeps the mark but asks for every one of them again. Here a mark stays decided when what it
was given for is the same: the text of a written answer, or the machine's verdict on a check.
"""

import json
from pathlib import Path

import nbformat
from nbgrader.api import MissingEntry
from nbgrader.utils import is_grade, is_solution

from autograder.classroom import Classroom
from autograder.preprocessors import VERDICTS_FILE
from autograder.status import status_file

Grounds = dict[str, str]


def grounds(classroom: Classroom, unit: str, student: str) -> Grounds:
    """{grade id: what a person sees there}, from the autograded notebook; empty without one."""
    autograded = classroom.notebook("autograded", unit, student)
    verdicts = autograded.with_name(VERDICTS_FILE)
    if not (autograded.exists() and verdicts.exists()):
        return {}
    found = {check["id"]: check["verdict"] for check in json.loads(verdicts.read_text())["checks"]}
    for cell in nbformat.read(autograded, as_version=4).cells:
        if is_grade(cell) and is_solution(cell):
            found[cell.metadata["nbgrader"]["grade_id"]] = cell.source
    return found


def kept_file(classroom: Classroom, unit: str, student: str) -> Path:
    """The grounds of the last attempt that succeeded; in a failed one nbgrader deletes its own."""
    return status_file(classroom.path, unit, student).with_suffix(".grounds")


def decided(classroom: Classroom, unit: str, student: str) -> Grounds:
    """The grounds of the marks that a person gave and that are not asked for again."""
    before = grounds(classroom, unit, student)
    kept = kept_file(classroom, unit, student)
    if not before and kept.exists():
        before = json.loads(kept.read_text(encoding="utf-8"))
    with classroom.api.gradebook as gradebook:
        try:
            grades = gradebook.find_submission_notebook(unit, unit, student).grades
        except MissingEntry:
            return {}
        return {
            grade.name: before[grade.name]
            for grade in grades
            if grade.manual_score is not None
            and not grade.needs_manual_grade
            and grade.name in before
        }


def keep(classroom: Classroom, unit: str, student: str, before: Grounds) -> None:
    """After grading again, close the decisions of `before` whose ground is the same."""
    now = grounds(classroom, unit, student)
    with classroom.api.gradebook as gradebook:
        for grade in gradebook.find_submission_notebook(unit, unit, student).grades:
            if grade.name in before and before[grade.name] == now.get(grade.name):
                grade.needs_manual_grade = False
        gradebook.db.commit()
    kept = kept_file(classroom, unit, student)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(now, ensure_ascii=False), encoding="utf-8")
