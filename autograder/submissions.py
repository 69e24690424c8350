"""Grade a class, each submission on its own, so that no submission can stop another.

A submission is first staged: the one notebook found, under the name nbgrader expects, and nothing
else of what was handed in. `submitted/` itself is only read.
"""

import html
import json
import shutil
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nbformat
from nbgrader.utils import parse_utc

from autograder.assignment import ROOT
from autograder.classroom import (
    STAGING,
    Classroom,
    ClassroomError,
    first_exception,
    shown,
    source_text,
)
from autograder.handed_in import MAX_SUBMISSION_BYTES, Unreadable
from autograder.intake import clean
from autograder.judge import needs_figures
from autograder.parallel import Figures, Pool, Processes, Result, Task, judge_all
from autograder.preprocessors import VERDICTS_FILE
from autograder.seed import grader_seed
from autograder.status import (
    Status,
    fingerprint,
    only_grader,
    read_status,
    seed_number,
    status_file,
    write_status,
)

MAX_TIMESTAMP_CHARS = 100
DISGUISES = (".ipynb", ".ipynb.txt", ".ipynb.json")
PATTERN_CHARACTERS = set("*?[]")  # nbgrader takes names for patterns
# Whatever these hold can change a verdict.
GRADER_SOURCES = ("autograder", "kernels", "lessons/lib", "course/source_map.yml")
NO_FIGURES = "this unit reads no measured figures"
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
    if folder.is_symlink() or folder.parent.is_symlink():
        raise SubmissionError("the folder is a link to another one; hand in the notebook itself")
    exact = folder / f"{unit}.ipynb"
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and ".ipynb_checkpoints" not in path.parts
    ]
    found = [path for path in files if path.name.endswith(".ipynb")]
    found = found or [path for path in files if is_disguised(path.name, unit)]
    if exact in found:
        return exact, []
    names = ", ".join(readable(path.relative_to(folder)) for path in found)
    if len(found) == 1:
        return found[0], [f"{names} was taken for {unit}.ipynb; please keep that name next time"]
    if found:
        raise SubmissionError(f"several notebooks ({names}) and none is called {unit}.ipynb")
    raise SubmissionError(f"no notebook was handed in; {unit}.ipynb is expected")


def is_disguised(name: str, unit: str) -> bool:
    """Whether a browser or zip_collect may have made this of a notebook's name."""
    lower = name.lower()
    return lower.endswith(DISGUISES) or lower in (f"{unit}.txt", f"{unit}.json")


def readable(name: Path | str) -> str:
    """A file's name as text that can be printed and kept; what is not UTF-8 becomes a ?."""
    return str(name).encode("utf-8", "replace").decode("utf-8")


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
        raise SubmissionError(f"{readable(path.name)} cannot be opened: {error.strerror}") from None
    except Unreadable as error:
        raise SubmissionError(f"{readable(path.name)}: {error}") from None
    staged.mkdir(parents=True)
    (staged / f"{unit}.ipynb").write_bytes(data)
    messages += stage_timestamp(folder / "timestamp.txt", staged)
    return messages


def stage_timestamp(stamp: Path, staged: Path) -> list[str]:
    """Keep nbgrader's timestamp.txt when it holds a time."""
    if not stamp.is_file():
        return []
    with stamp.open(encoding="utf-8", errors="replace") as file:
        text = file.read(MAX_TIMESTAMP_CHARS).strip()
    try:
        parse_utc(text)
    except (ValueError, OverflowError):
        return ["timestamp.txt holds no time and was left out"]
    (staged / "timestamp.txt").write_text(text, encoding="utf-8")
    return []


def source_digest() -> str:
    """Changes when anything that can change a verdict does, but for the lesson and the seed."""
    return fingerprint([ROOT / name for name in GRADER_SOURCES])


def grader_fingerprint(classroom: Classroom, unit: str) -> str:
    """Changes when anything that can change a verdict does, the secret seed included."""
    paths = [ROOT / "solutions" / unit, classroom.notebook("release", unit)]
    return fingerprint(paths, source_digest(), grader_seed(classroom=classroom.path))


def autograde(
    classroom: Classroom,
    unit: str,
    student: str | None = None,
    force: bool = False,
    pool: Pool = Processes(),  # noqa: B008  (it cannot change)
) -> list[Status]:
    """Grade what is new or whose grounds changed, and print one line for each submission.

    `pool` is where submissions are judged; this process alone writes the gradebook. It may be
    killed at any moment: a submission counts as graded only when its status is there, and until
    then it is graded anew, from its beginning.
    """
    students = classroom.students(unit)
    if student and student not in students:
        raise ClassroomError(
            f"{student!r} has handed in nothing for {unit} under {classroom.path / 'submitted'}"
        )
    if not students:
        print(f"{unit}: nothing in {classroom.path / 'submitted'}/<student>/{unit}/")
    source = classroom.notebook("source", unit)
    if source.exists() and source.read_text(encoding="utf-8") != source_text(classroom, unit):
        print(f"{unit}: WARNING: the lesson has changed since it was released; run: make release")
    with only_grader(classroom.path):
        run = _Run(classroom, unit, force)
        names = [student] if student else students
        run.leave_alone(names)
        run.grade(pool)
        return [run.statuses[name] for name in names]


class _Run:
    """One run over a unit: what is due, what came of it, and the lines that say so."""

    def __init__(self, classroom: Classroom, unit: str, force: bool) -> None:
        self.classroom, self.unit, self.force = classroom, unit, force
        self.seed = grader_seed(classroom=classroom.path)
        self.statuses: dict[str, Status] = {}
        self.due: dict[str, Status] = {}  # as they will be when all goes well

    def leave_alone(self, students: list[str]) -> None:
        """Sort out what is up to date; the rest is due."""
        grader = grader_fingerprint(self.classroom, self.unit)
        number = seed_number(self.classroom.path, self.seed)
        for name in students:
            now = fingerprint([self.classroom.path / "submitted" / name / self.unit], grader)
            kept = read_status(self.classroom.path, self.unit, name)
            if kept and not self.force and is_complete(self.classroom, self.unit, kept, now):
                self.say(kept, " (up to date)")
            else:
                self.due[name] = Status(name, "graded", now, seed=number)

    def grade(self, pool: Pool) -> None:
        """Judge what is due, and take each judgement into the gradebook as it comes."""
        for task, result in judge_all(self.tasks(pool), pool):
            self.finish(record(self.classroom, self.unit, self.due[task.student], result))

    def tasks(self, pool: Pool) -> Iterator[Task]:
        """What can be read, staged; what cannot is done with here."""
        figures: Figures | None = None
        for name, status in self.due.items():
            try:
                status.messages.extend(stage(self.classroom, self.unit, name))
            except SubmissionError as error:
                self.finish(replace(status, state="unreadable", messages=[str(error)]))
                continue
            except Exception as error:  # whatever a file can do to us, the next one is graded
                self.finish(record(self.classroom, self.unit, status, error))
                continue
            if figures is None:
                figures = pool.figures() if needs_figures(self.unit) else NO_FIGURES
            data = self.classroom.notebook(STAGING, self.unit, name).read_bytes()
            yield Task(name, data, self.unit, self.seed, figures)

    def finish(self, status: Status) -> None:
        """Only now does the submission count as done."""
        write_status(self.classroom.path, self.unit, status)
        done = 1 + sum(name in self.due for name in self.statuses)
        self.say(status, f"  {done}/{len(self.due)}")

    def say(self, status: Status, note: str) -> None:
        self.statuses[status.student] = status
        print(f"{self.unit}  {status.student:24} {status.state}{note}", flush=True)
        for message in status.messages:
            print(f"{self.unit}  {status.student:24}   {message}")


def is_complete(classroom: Classroom, unit: str, status: Status, now: str) -> bool:
    """Whether the last attempt was at this and came to its end."""
    if status.fingerprint != now:
        return False
    verdicts = classroom.notebook("autograded", unit, status.student).with_name(VERDICTS_FILE)
    return status.state == "unreadable" or (status.state == "graded" and verdicts.exists())


def record(classroom: Classroom, unit: str, status: Status, judgement: Result) -> Status:
    """Take a judgement through `nbgrader autograde`; never raises for what is in a submission."""
    if isinstance(judgement, Exception):
        log = "".join(traceback.format_exception(judgement))
        reason = traceback.format_exception_only(judgement)[-1].strip()
        return failed(classroom, unit, status, reason, log)
    result = classroom.autograde(unit, status.student, judgement)
    if not result["success"]:
        log = f"{result.get('log', '')}\n{result.get('error', '')}"
        return failed(classroom, unit, status, first_exception(result), log)
    verdicts = classroom.notebook("autograded", unit, status.student).with_name(VERDICTS_FILE)
    found = json.loads(verdicts.read_text(encoding="utf-8"))["messages"]
    return replace(status, messages=[*status.messages, *found])


def failed(classroom: Classroom, unit: str, status: Status, reason: str, log: str) -> Status:
    """The status of an attempt that the grader could not finish; the next run tries again."""
    file = status_file(classroom.path, unit, status.student).with_suffix(".log")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(log, encoding="utf-8")
    return replace(status, state="failed", messages=[f"{reason} (see {file})"])


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
