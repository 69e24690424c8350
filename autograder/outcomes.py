"""The line of each student of a class: gradebook, verdicts and pass rule put together."""

import json
from dataclasses import replace

from nbgrader.api import Gradebook, MissingEntry

from autograder.classroom import Classroom
from autograder.passrule import Mark, Outcome, decide, nothing_yet
from autograder.preprocessors import VERDICTS_FILE
from autograder.rubric import read_rubric
from autograder.status import read_status


def read_marks(gradebook: Gradebook, unit: str, student: str, verdicts: dict) -> list[Mark]:
    """The marks of one submission, in the order of the checks, then of the notebook."""
    submission = gradebook.find_submission_notebook(unit, unit, student)
    comments = {comment.name: comment.comment or "" for comment in submission.comments}
    checks = {check["id"]: check for check in verdicts.get("checks", [])}
    order = list(checks)
    marks = [
        Mark(
            grade.name,
            grade.max_score,
            None if grade.needs_manual_grade else grade.score,
            checks.get(grade.name, {}).get("verdict", ""),
            grade.manual_score is not None,
            comments.get(grade.name, ""),
            checks.get(grade.name, {}).get("reason", ""),
            checks.get(grade.name, {}).get("hint", ""),
        )
        for grade in submission.grades
    ]
    known = [mark for mark in marks if mark.id in checks]
    return sorted(known, key=lambda mark: order.index(mark.id)) + [
        mark for mark in marks if mark.id not in checks
    ]


def outcome(classroom: Classroom, gradebook: Gradebook, unit: str, student: str) -> Outcome:
    """The line of one student, whatever state the submission is in."""
    status = read_status(classroom.path, unit, student)
    if status and status.state != "graded":
        return nothing_yet(student, f"{status.state}: {'; '.join(status.messages)}")
    if not (classroom.path / "submitted" / student / unit).is_dir():
        return nothing_yet(student, "not submitted")
    file = classroom.notebook("autograded", unit, student).parent / VERDICTS_FILE
    if not file.exists():
        return nothing_yet(student, "not autograded")
    verdicts = json.loads(file.read_text(encoding="utf-8"))
    try:
        marks = read_marks(gradebook, unit, student, verdicts)
    except MissingEntry:
        return nothing_yet(student, "not in the gradebook; autograde again")
    found = decide(student, marks, read_rubric(unit), verdicts["isolation"])
    return replace(found, seed=status.seed if status else 0)


def outcomes(classroom: Classroom, unit: str) -> list[Outcome]:
    """Every student the classroom knows of, sorted by name."""
    with classroom.api.gradebook as gradebook:
        students = {student.id for student in gradebook.students} | set(classroom.students(unit))
        return [outcome(classroom, gradebook, unit, student) for student in sorted(students)]
