"""How long grading a class takes: stock `nbgrader autograde` and ours, on the same submissions.

python -m autograder.throughput --json course/results/grader_throughput.json

Stock nbgrader gets the lesson with plain test cells and without the cells that run the model, so
it does less than a real lesson asks for. Ours judges outside the notebook, in sandboxes. A run that
was stopped goes on with the timings it has kept.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder import assignment, parallel, sample_class
from autograder.checks.figures import RACE
from autograder.classroom import Classroom, create_classroom, release
from autograder.kept import Kept
from lessons.lib.bench.ledger import environment, spread

SCHEMA = "specdec-grader-throughput/1"
UNIT = sample_class.FULL_CLASS
STOCK = "nbgrader autograde"
KEPT = ("setup", "exercise", "check", "answer")
MAX_CALM_LOAD = 0.5  # before a run, in the last minute: more is somebody else's work

Row = dict[str, Any]


class ThroughputError(ValueError):
    """A run did not end well, so its time says nothing."""


def submissions(num: int) -> dict[str, NotebookNode]:
    """The sample class's ways to answer, in turn: {student: the notebook handed in}."""
    code = sample_class.code_of(UNIT, "en")
    ways, found = list(sample_class.STUDENTS.values()), {}
    for number in range(num):
        nb = assignment.build_release(UNIT, "en")
        answers = ways[number % len(ways)](UNIT, code)
        for cell in nb.cells:
            cell.source = answers.get(cell.id, cell.source)
        found[f"s{number:03}"] = nb
    return found


def with_plain_tests(nb: NotebookNode) -> NotebookNode:
    """The notebook as stock nbgrader can grade it: `live` needs the cells left out, so it goes."""
    kept = [
        cell
        for cell in nb.cells
        if (cell.cell_type == "markdown" or assignment.role(cell) in KEPT) and cell.id != "live"
    ]
    return nbformat.from_dict({**nb, "cells": kept})


def write(nb: NotebookNode, folder: Path) -> None:
    """A notebook where nbgrader looks for it."""
    folder.mkdir(parents=True)
    (folder / f"{UNIT}.ipynb").write_text(nbformat.writes(nb), encoding="utf-8")


def prepare_ours(folder: Path, handed_in: dict[str, NotebookNode]) -> Classroom:
    """A classroom with the submissions; the engine is measured now, not while the clock runs."""
    classroom = create_classroom(folder, "en")
    release(classroom, UNIT)
    for student, nb in handed_in.items():
        write(nb, folder / "submitted" / student / UNIT)
    parallel.measured_figures()
    return classroom


def prepare_stock(folder: Path, handed_in: dict[str, NotebookNode]) -> None:
    """A course directory of stock nbgrader with the same submissions."""
    write(with_plain_tests(assignment.build_source(UNIT, "en")), folder / "source" / UNIT)
    for student, nb in handed_in.items():
        write(with_plain_tests(nb), folder / "submitted" / student / UNIT)
    run([sys.executable, "-m", "nbgrader", "generate_assignment", UNIT], folder, {})


def run(command: list[str], cwd: Path, env: dict[str, str]) -> float:
    """The seconds that a command takes. Raises ThroughputError."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | {"PATH": path} | env, capture_output=True, text=True
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise ThroughputError(f"{' '.join(command[1:])} failed:\n{done.stderr[-2000:]}")
    return seconds


def measure(folder: Path, num: int, jobs: list[int], repeats: int, kept: Kept) -> list[Row]:
    """Every way of grading, one after the other, `repeats` times; the load before each run."""
    handed_in = submissions(num)
    prepare_stock(folder / "stock", handed_in)
    prepare_ours(folder / "ours", handed_in)
    stock = [sys.executable, "-m", "nbgrader", "autograde", UNIT, "--force"]
    ours = [sys.executable, "-m", "autograder", "autograde", UNIT, "--force", "--jobs"]
    here = {"CLASSROOM": str(folder / "ours"), "PYTHONPATH": str(assignment.ROOT)}
    here[RACE] = "no"  # stock nbgrader has no race to run
    rows: list[Row] = [{"name": STOCK, "wall_s": [], "load": []}]
    rows += [{"name": f"ours, jobs {n}", "wall_s": [], "load": []} for n in jobs]
    for turn in range(repeats):
        for row, num_jobs in zip(rows, [0, *jobs], strict=True):
            command = [*ours, str(num_jobs)] if num_jobs else stock
            where = (assignment.ROOT, here) if num_jobs else (folder / "stock", {})
            key = f"{turn} {row['name']} {num}"
            load, seconds = kept.or_now(key, lambda c=command, w=where: timed(c, *w))  # type: ignore[misc]
            row["load"].append(load)
            row["wall_s"].append(seconds)
            print(f"{turn + 1}/{repeats}  {row['name']:20} {seconds:6.1f} s", flush=True)
    return rows


def timed(command: list[str], cwd: Path, env: dict[str, str]) -> tuple[float, float]:
    """The load before a command, and the seconds that it takes."""
    load = os.getloadavg()[0]
    return round(load, 2), round(run(command, cwd, env), 2)


def summary(rows: list[Row], num: int) -> list[Row]:
    """Adds seconds per submission, and how often faster than stock in the same turn."""
    stock = rows[0]["wall_s"]
    for row in rows:
        row["s_per_submission"] = spread([seconds / num for seconds in row["wall_s"]])
        ratios = [a / b for a, b in zip(stock, row["wall_s"], strict=True)]
        row["throughput_vs_stock"] = spread(ratios)
    return rows


def main() -> int:
    """Measure, print and write the ledger."""
    parser = argparse.ArgumentParser(prog="python -m autograder.throughput", description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="the ledger to write")
    parser.add_argument("--submissions", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    kept = Kept(args.json)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), args.submissions, args.jobs, args.repeats, kept)
    settings = {"submissions": args.submissions, "repeats": args.repeats, "jobs": args.jobs}
    command = f"python -m autograder.throughput --json {args.json}"
    ledger = environment(SCHEMA, "cpu", command, settings)
    first = rows[0]["load"][0]
    if first > MAX_CALM_LOAD:
        ledger["warnings"] = [f"the machine was busy: load {first} before the first run"]
    ledger["results"] = summary(rows, args.submissions)
    args.json.write_text(f"{json.dumps(ledger, indent=1)}\n", encoding="utf-8")
    kept.done()
    for row in ledger["results"]:
        print(
            f"{row['name']:20} {row['s_per_submission']['median']:.2f} s a submission,"
            f" {row['throughput_vs_stock']['median']:.2f} of stock"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
