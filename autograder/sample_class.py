"""`make course`: a sample classroom from release to report, and the site. Everything is in build/.

What is up to date is left alone, so a second run only looks.
"""

import os
import shutil
import sys
from collections.abc import Callable

import nbformat

from autograder import assignment, rubric
from autograder.checks.figures import RACE
from autograder.classroom import Classroom, ClassroomError, create_classroom, release, shown
from autograder.fill_ins import cell_of, fill_ins
from autograder.report import print_report, write_report
from autograder.submissions import autograde, write_feedback
from course.render import site

CLASSROOM = assignment.ROOT / "build" / "sample-classroom"
SITE = assignment.ROOT / "build" / "site"
SAMPLE_NOTE = "Sample grade, entered by `make course`."
WRITTEN = {
    "en": "A sample answer to {name}: the proposer owns the draft, the verifier decides.",
    "zh": "{name} 的示例答案：proposer 拥有草稿，验证器做决定。",
}
# Student: scores of the written answers in order, and a comment on the first, as a person would
# enter them in formgrader.
SAMPLE_GRADES: dict[str, tuple[tuple[float, ...], str]] = {
    "ada-right": ((2, 2, 1), ""),
    "cleo-partly-right": ((2, 1, 2), ""),
    "vera-vetoed": ((2, 2, 2), "VETO {veto}"),
}
# Every unit is graded for the first three; the unit with the full class shows the rest as well.
IN_EVERY_UNIT = ("ada-right", "cleo-partly-right", "dan-untouched")
FULL_CLASS = "lesson08"

Answers = dict[str, str]


def right(unit: str, answers: Answers) -> Answers:
    """The answers of the solution."""
    return answers


def other_style(unit: str, answers: Answers) -> Answers:
    """Right answers written another way: the last right variant of each cell."""
    return answers | {cell_of(item): item.text for item in fill_ins(unit) if item.kind == "right"}


def partly_right(unit: str, answers: Answers) -> Answers:
    """Right, but for one cell: the first of the unit's wrong fill-ins."""
    wrong = fill_ins(unit)[0]
    return answers | {cell_of(wrong): wrong.text}


def untouched(unit: str, answers: Answers) -> Answers:
    """Handed in as released."""
    return {}


STUDENTS: dict[str, Callable[[str, Answers], Answers]] = {
    "ada-right": right,
    "bo-right-other-style": other_style,
    "cleo-partly-right": partly_right,
    "dan-untouched": untouched,
    "vera-vetoed": right,
}


def code_of(unit: str, lang: str) -> Answers:
    """The solution's code by label."""
    answers = assignment.read_answers(assignment.answers_path(unit, lang))
    return {name: text for name, (kind, text) in answers.items() if kind == "code"}


def students_of(unit: str) -> list[str]:
    """Who hands this unit in."""
    return [name for name in STUDENTS if unit == FULL_CLASS or name in IN_EVERY_UNIT]


def write_submissions(classroom: Classroom, unit: str) -> None:
    """Hand in for the sample students; a file that is already right keeps its time."""
    code = code_of(unit, classroom.lang)
    for student in students_of(unit):
        nb = nbformat.read(classroom.notebook("release", unit), as_version=4)
        answers = STUDENTS[student](unit, code)
        for cell in nb.cells:
            if assignment.role(cell) == "answer" and answers:
                cell.source = WRITTEN[classroom.lang].format(name=cell.id)
            cell.source = answers.get(cell.id, cell.source)
        hand_in(classroom, unit, student, nbformat.writes(nb))
    if unit == FULL_CLASS:
        hand_in(classroom, unit, "eve-not-a-notebook", "This is not a notebook.\n")


def hand_in(classroom: Classroom, unit: str, student: str, text: str) -> None:
    """Write one submission, unless it is there already."""
    path = classroom.notebook("submitted", unit, student)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def enter_sample_grades(classroom: Classroom, unit: str) -> None:
    """Grade some written answers, marked as samples; what a person has graded stays."""
    questions = rubric.read_rubric(unit)
    veto = questions["vetoes"][0]["id"]
    with classroom.api.gradebook as gradebook:
        for student in SAMPLE_GRADES.keys() & set(students_of(unit)):
            scores, comment = SAMPLE_GRADES[student]
            for number, name in enumerate(questions["questions"]):
                grade = gradebook.find_grade(name, unit, unit, student)
                # Our own mark is renewed when the grader asks for it again.
                if grade.manual_score not in (None, scores[number]):
                    continue
                grade.manual_score, grade.needs_manual_grade = scores[number], False
                note = gradebook.find_comment(name, unit, unit, student)
                added = "" if number else comment.format(veto=veto)
                note.manual_comment = f"{SAMPLE_NOTE} {added}".strip()
        gradebook.db.commit()


def sample_classroom(lang: str) -> Classroom:
    """The sample classroom in a language; one in the other language is built anew."""
    try:
        return create_classroom(CLASSROOM, lang)
    except ClassroomError:
        shutil.rmtree(CLASSROOM)
        return create_classroom(CLASSROOM, lang)


def main(argv: list[str]) -> int:
    """The verb `course`."""
    if argv:
        raise ClassroomError(f"course takes no options, got {' '.join(argv)!r}")
    classroom, units = sample_classroom(os.environ.get("COURSE_LANG") or "en"), assignment.units()
    print("[1/5] the assignments", flush=True)
    for unit in units:
        print(f"{unit}: {'released' if release(classroom, unit) else 'up to date'}", flush=True)
    os.environ.setdefault(RACE, "no")  # to look around, not to grade: half a minute a student less
    print("[2/5] grade a sample class (the first run measures the engine: a minute or two)")
    for unit in units:
        write_submissions(classroom, unit)
        autograde(classroom, unit)
        enter_sample_grades(classroom, unit)
    print("[3/5] feedback", flush=True)
    for unit in units:
        write_feedback(classroom, unit)
    print("[4/5] the site", flush=True)
    print(f"{site.build(assignment.ROOT, SITE, progress=sys.stderr.isatty())} pages written")
    print("[5/5] report (the grades of the written answers are samples)\n", flush=True)
    print_report(classroom, write_report(classroom))
    print(where_to_look(classroom))
    return 0


def where_to_look(classroom: Classroom) -> str:
    """The paths of what was made, and the next commands."""
    feedback = classroom.notebook("feedback", FULL_CLASS, "ada-right").with_suffix(".html")
    return f"""
look at    {shown(classroom.notebook("release", FULL_CLASS))}   what a student gets
           {shown(feedback)}   what a student gets back
           {shown(classroom.path / "report.html")}   the class
           {shown(SITE / "index.html")}   the site ({shown(SITE)}-instructor: with answers)
next       make lab                                            learn: your own copy in JupyterLab
           make formgrader CLASSROOM={shown(classroom.path)}    grade the written answers
           make release                                        start your own classroom"""
