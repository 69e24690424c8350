"""Grade a class, one submission at a time, so that no submission can stop the next.

A submission is first staged: the one notebook found, under the name nbgrader expects, and nothing
else of what was handed in. `submitted/` itself is only read.
"""

import html
import json
import shutil
from pathlib import Path

import nbformat
from nbgrader.utils import parse_utc

from autograder.assignment import ROOT
from autograder.classroom import STAGING, Classroom, ClassroomError, first_exception, shown
from autograder.intake import MAX_SUBMISSION_BYTES, Unreadable, clean
from autograder.preprocessors import VERDICTS_FILE
from autograder.seed import grader_seed
from autograder.status import Status, fingerprint, read_status, status_file, write_status

PATTERN_CHARACTERS = set("*?[]")  # nbgrader takes names for patterns
# Whatever these hold can change a verdict.
GRADER_SOURCES = ("autograder", "kernels", "lessons/lib", "course/source_map.yml")
NOTICE = {
    "en": {
        "unreadable": "Your submission has no grade: it could not be read. Hand in {unit}.ipynb.",
        "failed": "Your submission has no grade yet: the grader stopped. You need do nothing.",
    },
    "zh": {
        "unreadable": "你的提交没有评分：文件无法读取。请重新提交 {unit}.ipynb。",
        "failed": "你的提交还没有评分：评分程序在此中断。你不需要做任何事。",
    },
}


class SubmissionError(ValueError):
    """What was handed in is not a notebook of this unit; the message is for the student."""


def find_notebook(folder: Path, unit: str) -> tuple[Path, list[str]]:
    """The notebook of a submission folder, and a message when it was not where it should be."""
    exact = folder / f"{unit}.ipynb"
    found = [
        path
        for path in sorted(folder.rglob("*.ipynb"))
        if path.is_file() and not path.is_symlink() and ".ipynb_checkpoints" not in path.parts
    ]
    if exact in found:
        return exact, []
    names = ", ".join(str(path.relative_to(folder)) for path in found)
    if len(found) == 1:
        return found[0], [f"{names} was taken for {unit}.ipynb; please keep that name next time"]
    if found:
        raise SubmissionError(f"several notebooks ({names}) and none is called {unit}.ipynb")
    raise SubmissionError(f"no notebook was handed in; {unit}.ipynb is expected")


def stage(classroom: Classroom, unit: str, student: str) -> list[str]:
    """Put a submission's notebook and time stamp where nbgrader reads them; returns messages."""
    folder = classroom.path / "submitted" / student / unit
    staged = classroom.path / STAGING / student / unit
    shutil.rmtree(staged, ignore_errors=True)
    if PATTERN_CHARACTERS & set(student):
        raise SubmissionError(f"nbgrader cannot grade a folder with *?[] in its name: {student}")
    path, messages = find_notebook(folder, unit)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SUBMISSION_BYTES + 1)
        clean(data, nbformat.read(classroom.notebook("release", unit), as_version=4))
    except OSError as error:
        raise SubmissionError(f"{path.name} cannot be opened: {error.strerror}") from None
    except Unreadable as error:
        raise SubmissionError(f"{path.name}: {error}") from None
    staged.mkdir(parents=True)
    (staged / f"{unit}.ipynb").write_bytes(data)
    messages += stage_timestamp(folder / "timestamp.txt", staged)
    return messages


def stage_timestamp(stamp: Path, staged: Path) -> list[str]:
    """Keep nbgrader's timestamp.txt when it holds a time."""
    if not stamp.is_file():
        return []
    text = stamp.read_text(encoding="utf-8", errors="replace").strip()
    try:
        parse_utc(text)
    except (ValueError, OverflowError):
        return ["timestamp.txt holds no time and was left out"]
    (staged / "timestamp.txt").write_text(text, encoding="utf-8")
    return []


def grader_fingerprint(classroom: Classroom, unit: str) -> str:
    """Changes when anything that can change a verdict does, the secret seed included."""
    paths = [ROOT / name for name in GRADER_SOURCES]
    paths += [ROOT / "solutions" / unit, classroom.notebook("release", unit)]
    return fingerprint(paths, grader_seed(classroom=classroom.path))


def autograde(
    classroom: Classroom, unit: str, student: str | None = None, force: bool = False
) -> list[Status]:
    """Grade what is new or whose grounds changed, and print one line for each submission."""
    students = classroom.students(unit)
    if student and student not in students:
        raise ClassroomError(
            f"{student!r} has handed in nothing for {unit} under {classroom.path / 'submitted'}"
        )
    if not students:
        print(f"{unit}: nothing in {classroom.path / 'submitted'}/<student>/{unit}/")
    grader = grader_fingerprint(classroom, unit)
    results = []
    for name in [student] if student else students:
        print(f"{unit}  {name:24} ", end="", flush=True)
        status, is_new = bring_up_to_date(classroom, unit, name, grader, force)
        results.append(status)
        print(f"{status.state}{'' if is_new else ' (up to date)'}")
        for message in status.messages:
            print(f"{unit}  {name:24}   {message}")
    return results


def bring_up_to_date(
    classroom: Classroom, unit: str, student: str, grader: str, force: bool
) -> tuple[Status, bool]:
    """Grade one submission unless nothing has changed; says whether it was graded now."""
    now = fingerprint([classroom.path / "submitted" / student / unit], grader)
    status = read_status(classroom.path, unit, student)
    if status and status.fingerprint == now and is_complete(classroom, unit, status) and not force:
        return status, False
    status = grade_one(classroom, unit, student, now)
    write_status(classroom.path, unit, status)
    return status, True


def is_complete(classroom: Classroom, unit: str, status: Status) -> bool:
    """Whether the last attempt came to its end: one that was killed has left no verdicts."""
    verdicts = classroom.notebook("autograded", unit, status.student).with_name(VERDICTS_FILE)
    return status.state == "unreadable" or (status.state == "graded" and verdicts.exists())


def grade_one(classroom: Classroom, unit: str, student: str, now: str) -> Status:
    """Take one submission through `nbgrader autograde`; never raises for what is in it."""
    try:
        messages = stage(classroom, unit, student)
    except SubmissionError as error:
        return Status(student, "unreadable", now, [str(error)])
    result = classroom.api.autograde(unit, student, force=True)
    if not result["success"]:
        log = status_file(classroom.path, unit, student).with_suffix(".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{result.get('log', '')}\n{result.get('error', '')}", encoding="utf-8")
        return Status(student, "failed", now, [f"{first_exception(result)} (see {log})"])
    verdicts = classroom.notebook("autograded", unit, student).with_name(VERDICTS_FILE)
    messages += json.loads(verdicts.read_text(encoding="utf-8"))["messages"]
    return Status(student, "graded", now, messages)


def write_feedback(classroom: Classroom, unit: str) -> list[Path]:
    """Write feedback/ for every student; who could not be graded gets the reason as a page."""
    written = []
    for student in classroom.students(unit):
        page = classroom.notebook("feedback", unit, student).with_suffix(".html")
        status = read_status(classroom.path, unit, student)
        if status is None:
            print(f"{unit}  {student:24} not graded yet; run: make autograde")
            continue
        if status.state == "graded":
            result = classroom.api.generate_feedback(unit, student)
            if not result["success"]:
                print(f"{unit}  {student:24} no feedback: {first_exception(result)}")
                continue
        else:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(notice(unit, classroom.lang, status), encoding="utf-8")
        print(f"{unit}  {student:24} {shown(page)}", flush=True)
        written.append(page)
    return written


def notice(unit: str, lang: str, status: Status) -> str:
    """The page for a submission without a grade."""
    said = status.messages if status.state == "unreadable" else []
    lines = [NOTICE[lang][status.state].format(unit=unit), *said]
    body = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
    return f'<!doctype html><html lang="{lang}"><meta charset="utf-8"><title>{unit}</title>{body}\n'
