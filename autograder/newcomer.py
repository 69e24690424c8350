"""`python -m autograder newcomer [UNIT] [--json]`: the way of a student through every unit.

A copy as `make lab` makes it, its blanks filled with the last right variant of each; all cells run
in a Jupyter kernel; nbgrader's Validate; handed in; autograded in a classroom of its own. One line
a unit; exits with 1 where a cell fails, Validate finds something or a point for code is missing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import nbformat

from autograder import assignment
from autograder.classroom import chosen_units, create_classroom, release
from autograder.judge import units
from autograder.lab import student_copy
from autograder.outcomes import outcomes
from autograder.report import as_text
from autograder.rubric import read_rubric
from autograder.sample_class import WRITTEN, code_of, hand_in, other_style
from autograder.submissions import autograde
from course.render.assemble import ANSI

STUDENT = "newcomer"
VALID = "Success! Your notebook passes all the tests."


@dataclass(frozen=True)
class Way:
    """How one unit went. Times in seconds, on this machine as busy as it was; `problems` says what
    kept the newcomer from full points for code."""

    unit: str
    run_s: float
    grade_s: float
    points: float
    max_points: float
    problems: tuple[str, ...]


def main(argv: list[str]) -> int:
    """The verb `newcomer`."""
    parser = argparse.ArgumentParser(prog="python -m autograder newcomer")
    parser.add_argument("unit", nargs="?", help="such as lesson08; default: all")
    parser.add_argument("--json", action="store_true", help="print JSON; progress on stderr")
    options = parser.parse_args(argv)
    ways = []
    for unit in chosen_units(units(), options.unit, "autograder/checks/"):
        print(f"{unit} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            ways.append(complete(unit, Path(folder)))
    print(json.dumps([asdict(way) for way in ways]) if options.json else as_table(ways))
    return int(any(way.problems for way in ways))


def complete(unit: str, folder: Path) -> Way:
    """Do a unit in `folder`, from the copy to the grade."""
    path, _ = student_copy(unit, "en", folder / "student")
    fill(path, unit)
    started = time.perf_counter()
    problems = run_all(path)
    run_s = time.perf_counter() - started
    problems += [] if problems else validate(path)
    started = time.perf_counter()
    points, max_points, missing = grade(unit, path, folder / "class")
    grade_s = time.perf_counter() - started
    return Way(unit, round(run_s), round(grade_s), points, max_points, (*problems, *missing))


def fill(path: Path, unit: str) -> None:
    """Complete the copy, in a style of the student's own."""
    notebook = nbformat.read(path, as_version=4)
    code = other_style(unit, code_of(unit, "en"))
    for cell in notebook.cells:
        if assignment.role(cell) == "answer":
            cell.source = WRITTEN["en"].format(name=cell.id)
        cell.source = code.get(cell.id, cell.source)
    nbformat.write(notebook, path)


def run_all(path: Path) -> list[str]:
    """Run all cells and keep the outputs; what stopped it."""
    options = ["--to", "notebook", "--execute", "--inplace", "--ExecutePreprocessor.timeout=-1"]
    done = _jupyter(path, "nbconvert", *options, path.name)
    return [f"a cell fails: {_last_line(done)}"] if done.returncode else []


def validate(path: Path) -> list[str]:
    """What Validate in JupyterLab says, if it finds anything."""
    done = _jupyter(path, "nbgrader", "validate", path.name)
    return [] if VALID in done.stdout + done.stderr else [f"Validate: {_last_line(done)}"]


def grade(unit: str, path: Path, folder: Path) -> tuple[float, float, list[str]]:
    """Points and possible points for code, and the checks that kept some back."""
    classroom = create_classroom(folder, "en")
    release(classroom, unit)
    hand_in(classroom, unit, STUDENT, path.read_text(encoding="utf-8"))
    autograde(classroom, unit)
    (line,) = [found for found in outcomes(classroom, unit) if found.student == STUDENT]
    by_hand = read_rubric(unit)["questions"]
    marks = [mark for mark in line.marks if mark.id not in by_hand]
    missing = [f"{m.id}: {m.verdict}: {m.reason}" for m in marks if m.score != m.max]
    points = sum(mark.score or 0.0 for mark in marks)
    return points, sum(mark.max for mark in marks), missing if marks else line.why


def as_table(ways: list[Way]) -> str:
    """A line a unit, then what went wrong."""
    import pandas as pd

    frame = pd.DataFrame([asdict(way) for way in ways]).drop(columns="problems")
    problems = [f"{way.unit}: {problem}" for way in ways for problem in way.problems]
    return "\n".join([as_text(frame), *problems])


def _jupyter(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of Jupyter in the student's folder, with the course's packages at hand."""
    python_path = [str(assignment.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=path.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(python_path)},
        capture_output=True,
        text=True,
        check=False,
    )


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = ANSI.sub("", done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"
