"""`make course`: a sample classroom from release to report, and the site. Everything is in build/.

What is up to date is left alone, so a second run only looks.
"""

import os
import shutil
import sys
from collections.abc import Callable

import nbformat

from autograder import assignment
from autograder.classroom import Classroom, ClassroomError, create_classroom, release, shown
from autograder.report import print_report, write_report
from autograder.submissions import autograde, write_feedback
from course.render import site

CLASSROOM = assignment.ROOT / "build" / "sample-classroom"
SITE = assignment.ROOT / "build" / "site"
UNIT = "lesson08"
FILL_INS = assignment.ROOT / "autograder" / "mutants" / UNIT
SAMPLE_NOTE = "Sample grade, entered by `make course`."
WRITTEN = {
    "en": "A sample answer to {name}: the proposer owns the draft, the verifier decides.",
    "zh": "{name} 的示例答案：proposer 拥有草稿，验证器做决定。",
}
# Student: scores for q1 to q3 and a comment on q1, as a person would enter them in formgrader.
SAMPLE_GRADES: dict[str, tuple[tuple[float, ...], str]] = {
    "ada-right": ((2, 2, 1), ""),
    "cleo-partly-right": ((2, 1, 2), ""),
    "vera-vetoed": ((2, 2, 2), "VETO peak_as_general"),
}

Answers = dict[str, str]


def fill_in(name: str) -> str:
    """The text of one of the fill-ins that the checks are tested with."""
    return (FILL_INS / f"{name}.py").read_text(encoding="utf-8")


def right(answers: Answers) -> Answers:
    """The answers of the solution."""
    return answers


def other_style(answers: Answers) -> Answers:
    """Right answers written another way, about the other engine."""
    return {
        "acceptance_cost_model": fill_in("right/cost_recursion"),
        "source_objects": fill_in("right/map_vllm"),
    }


def partly_right(answers: Answers) -> Answers:
    """The main path is right; a probability out of range is clamped instead of refused."""
    return answers | {"acceptance_cost_model": fill_in("wrong/cost_clamps")}


def untouched(answers: Answers) -> Answers:
    """Handed in as released."""
    return {}


STUDENTS: dict[str, Callable[[Answers], Answers]] = {
    "ada-right": right,
    "bo-right-other-style": other_style,
    "cleo-partly-right": partly_right,
    "dan-untouched": untouched,
    "vera-vetoed": right,
}


def write_submissions(classroom: Classroom) -> None:
    """Hand in for the sample students; a file that is already right keeps its time."""
    path = assignment.answers_path(UNIT, classroom.lang)
    code = {
        name: text for name, (kind, text) in assignment.read_answers(path).items() if kind == "code"
    }
    for student, change in STUDENTS.items():
        nb = nbformat.read(classroom.notebook("release", UNIT), as_version=4)
        answers = change(code)
        for cell in nb.cells:
            if assignment.role(cell) == "answer" and answers:
                cell.source = WRITTEN[classroom.lang].format(name=cell.id)
            cell.source = answers.get(cell.id, cell.source)
        hand_in(classroom, student, nbformat.writes(nb))
    hand_in(classroom, "eve-not-a-notebook", "This is not a notebook.\n")


def hand_in(classroom: Classroom, student: str, text: str) -> None:
    """Write one submission, unless it is there already."""
    path = classroom.notebook("submitted", UNIT, student)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def enter_sample_grades(classroom: Classroom) -> None:
    """Grade some written answers, marked as samples; what a person has graded stays."""
    with classroom.api.gradebook as gradebook:
        for student, (scores, comment) in SAMPLE_GRADES.items():
            for name, score in zip(("q1", "q2", "q3"), scores, strict=True):
                grade = gradebook.find_grade(name, UNIT, UNIT, student)
                # Our own mark is renewed when the grader asks for it again.
                if grade.manual_score not in (None, score):
                    continue
                grade.manual_score, grade.needs_manual_grade = score, False
                note = gradebook.find_comment(name, UNIT, UNIT, student)
                note.manual_comment = f"{SAMPLE_NOTE} {comment if name == 'q1' else ''}".strip()
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
    print("[1/5] the assignment", flush=True)
    classroom = sample_classroom(os.environ.get("COURSE_LANG") or "en")
    print(f"{UNIT}: {'released' if release(classroom, UNIT) else 'up to date'}")
    print("[2/5] grade a sample class (the first run measures the engine: a minute or two)")
    write_submissions(classroom)
    autograde(classroom, UNIT)
    enter_sample_grades(classroom)
    print("[3/5] feedback", flush=True)
    write_feedback(classroom, UNIT)
    print("[4/5] the site", flush=True)
    print(f"{site.build(assignment.ROOT, SITE, progress=sys.stderr.isatty())} pages written")
    print("[5/5] report (the grades of the written answers are samples)\n", flush=True)
    print_report(classroom, write_report(classroom))
    print(where_to_look(classroom))
    return 0


def where_to_look(classroom: Classroom) -> str:
    """The paths of what was made, and the next commands."""
    feedback = classroom.notebook("feedback", UNIT, "ada-right").with_suffix(".html")
    return f"""
look at    {shown(classroom.notebook("release", UNIT))}   what a student gets
           {shown(feedback)}   what a student gets back
           {shown(classroom.path / "report.html")}   the class
           {shown(SITE / "index.html")}   the site ({shown(SITE)}-instructor: with answers)
next       make lab                                            learn: your own copy in JupyterLab
           make formgrader CLASSROOM={shown(classroom.path)}    grade the written answers
           make release                                        start your own classroom"""
