"""The same exercise as a plain nbgrader course: real hidden tests in the notebook, stock steps.

Nothing here knows our grader. The tests are what a careful instructor would write: comparisons
with a tolerance, numpy's own assertions, partial credit through the cell's last line.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.assignment import build_release
from autograder.attacks.corpus import ANSWER_CELL, CHECKS, MAP_CELL, PLAIN, UNIT
from autograder.checks.source_map import accepted_answers

# Shorter than nbgrader's 30 s, to save the reader's time: an endless loop earns the same.
CELL_SECONDS = 10
CONFIG = f"c = get_config()\nc.Execute.timeout = {CELL_SECONDS}\n"
HIDDEN = "### BEGIN HIDDEN TESTS\n{}\n### END HIDDEN TESTS"
MAIN = """
assert abs(expected_tokens_per_round([0.5]) - 1.5) < 1e-12
assert abs(expected_tokens_per_round([0.9, 0.9]) - 2.71) < 1e-12
assert abs(expected_tokens_per_round([]) - 1.0) < 1e-12
assert choose_spec_method(methods, 10.0, 5)[0] == "tree"
"""
BOUNDARY = """
import numpy

passed = 0
for rates in ([1.2], [0.5, -0.1], [float("nan")]):
    try:
        expected_tokens_per_round(rates)
    except ValueError:
        passed += 1
for rates, tokens in (([1, 1], 3.0), ([1.0, 0.5, 0.0], 2.5)):
    try:
        numpy.testing.assert_allclose(expected_tokens_per_round(rates), tokens)
        passed += 1
    except Exception:
        pass
round(passed / 5, 2)
"""
SOURCE_MAP = """
accepted = {accepted}
assert all(source_objects[key] in accepted[key] for key in accepted)
"""


def source_notebook() -> NotebookNode:
    """The instructor's notebook, made from the lesson's cells that need no model."""
    cells = {cell.id: cell for cell in build_release(UNIT, "en").cells}
    names = {key: sorted(short_names(full)) for key, full in accepted_answers().items()}
    hidden = {
        "main": MAIN,
        "boundary": BOUNDARY,
        "source_map": SOURCE_MAP.replace("{accepted}", json.dumps(names)),
        "live": "assert callable(choose_spec_method)",
    }
    answer = f"### BEGIN SOLUTION\n{PLAIN['right']}\n### END SOLUTION"
    nb = new_notebook(metadata={"kernelspec": kernelspec()})
    nb.cells = [read_only("setup", cells["setup"].source), solution(ANSWER_CELL, answer)]
    for name, points in CHECKS.items():
        if name == "source_map":
            nb.cells.append(solution(MAP_CELL, cells[MAP_CELL].source))
        public = cells[name].source if name != "live" else ""
        nb.cells.append(test(name, f"{public}\n{HIDDEN.format(hidden[name].strip())}", points))
    nb.cells += [question(name) for name in ("q1", "q2", "q3")]
    return nb


def short_names(full_names: set[str]) -> set[str]:
    """A function's name, and a method's with its class."""
    parts = [name.split(".") for name in full_names]
    return {part[-1] for part in parts} | {".".join(part[-2:]) for part in parts}


def kernelspec() -> dict[str, str]:
    return {"name": "python3", "display_name": "Python 3", "language": "python"}


def grading(name: str, kind: str, **flags: bool | float) -> dict:
    """nbgrader's metadata, schema 3."""
    common = {"schema_version": 3, "grade_id": name, "cell_type": kind, "task": False}
    return {"nbgrader": common | flags}


def solution(name: str, source: str) -> NotebookNode:
    metadata = grading(name, "code", grade=False, solution=True, locked=False)
    return new_code_cell(source, id=name, metadata=metadata)


def read_only(name: str, source: str) -> NotebookNode:
    metadata = grading(name, "code", grade=False, solution=False, locked=True)
    return new_code_cell(source, id=name, metadata=metadata)


def test(name: str, source: str, points: float) -> NotebookNode:
    metadata = grading(name, "code", grade=True, solution=False, locked=True, points=points)
    return new_code_cell(source, id=name, metadata=metadata)


def question(name: str) -> NotebookNode:
    metadata = grading(name, "markdown", grade=True, solution=True, locked=False, points=2.0)
    return new_markdown_cell("*Your answer:*", id=name, metadata=metadata)


def build(folder: Path) -> NotebookNode:
    """Make the course and release it through stock nbgrader; returns the release."""
    source = folder / "source" / UNIT / f"{UNIT}.ipynb"
    source.parent.mkdir(parents=True)
    nbformat.write(source_notebook(), source)
    (folder / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", UNIT]
    # nbgrader starts `alembic` by name.
    env = os.environ | {"PATH": f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"stock nbgrader could not make the course: {done.stderr[-500:]}")
    return nbformat.read(folder / "release" / UNIT / source.name, as_version=4)
