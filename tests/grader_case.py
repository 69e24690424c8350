"""Submissions for the grader's tests, made from the release of Lesson 8."""

import copy
import functools
import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from autograder.assignment import build_release
from autograder.checks.figures import Figures
from autograder.intake import clean, clean_notebook, grade_id
from autograder.judge import judge
from autograder.sandbox.launcher import Limits
from autograder.sandbox.session import Cell, Sandbox, find_isolation

UNIT = "lesson08"
MUTANTS = Path(__file__).parents[1] / "autograder" / "mutants" / UNIT
COST, MAP = "acceptance_cost_model", "source_objects"
CELL_OF = {"cost": COST, "map": MAP}
# Short, so that a test of an endless loop is short; long enough for a busy machine.
LIMITS = Limits(cell_s=30.0, call_s=5.0)
FIGURES = Figures(
    device="cpu (test)",
    baseline_ms=20.0,
    methods=[
        {
            "name": name,
            "conditional_acceptance": rates,
            "draft_ms": 0.1,
            "verify_ms": verify_ms,
            "overhead_ms": 1.0,
            "extra_memory_gb": memory,
        }
        for name, rates, verify_ms, memory in (
            ("ngram-2", [0.6, 0.7], 23.0, 0.001),
            ("ngram-4", [0.6, 0.7, 0.8, 0.8], 26.0, 0.002),
            ("ngram-8", [0.6, 0.7, 0.8, 0.8, 0.9, 0.9, 0.9, 0.9], 40.0, 0.004),
        )
    ],
)
ISOLATIONS = [pytest.param("bubblewrap", marks=pytest.mark.sandbox), "rlimits"]


def isolation_of(name):
    """The launcher's word for an isolation level: bubblewrap is started in one of two ways."""
    return find_isolation() if name == "bubblewrap" else name


def fill_in(name):
    """The text of a file under mutants, e.g. "right/cost_horner"."""
    return (MUTANTS / f"{name}.py").read_text(encoding="utf-8")


@functools.cache
def _release(lang):
    return build_release(UNIT, lang)


def release(lang="en"):
    return copy.deepcopy(_release(lang))


def cell(notebook, name):
    return next(c for c in notebook.cells if c.get("id") == name)


def submission(cost=None, source_map=None, extra=(), **answers):
    """A release with cells filled in; `extra` are code cells behind the exercise's cell."""
    notebook = release()
    cell(notebook, COST).source = fill_in("right/cost_cumulative_product") if cost is None else cost
    cell(notebook, MAP).source = fill_in("right/map_sglang") if source_map is None else source_map
    for name, text in answers.items():
        cell(notebook, name).source = text
    place = notebook.cells.index(cell(notebook, COST)) + 1
    notebook.cells[place:place] = [new_code_cell(text) for text in extra]
    return notebook


def grade(notebook, isolation=None, seed=11, limits=LIMITS):
    return judge(notebook, UNIT, seed, figures=lambda: FIGURES, limits=limits, isolation=isolation)


def started(source, isolation, limits=LIMITS):
    """A sandbox that has run one exercise cell."""
    box = Sandbox(limits, isolation_of(isolation))
    box.run_cells([Cell("cell", "exercise", source)])
    return box


def run(source, isolation, limits=LIMITS, name="f"):
    """The outcome of calling f(), after a cell with this source."""
    with started(source, isolation, limits) as box:
        return box.call(name)


def verdicts(judgement):
    return {check.id: check.verdict for check in judgement.checks}


def points(judgement):
    return {check.id: check.points for check in judgement.checks}


def assert_honest_gets_full_marks(isolation=None):
    """The next student in line: nothing of the one before may be left."""
    judgement = grade(submission(q1="My answer."), isolation)
    assert points(judgement) == dict(main=2, boundary=1, source_map=1, live=0, q1=0, q2=0, q3=0)
    assert verdicts(judgement) == {
        "main": "pass",
        "boundary": "pass",
        "source_map": "pass",
        "live": "pass",
        "q1": "not_measured",
        "q2": "fail",
        "q3": "fail",
    }


def cleaned(notebook):
    """Through JSON, as it comes from a student. Always valid, and stable when cleaned again."""
    result, messages = clean(json.dumps(notebook), release())
    nbformat.validate(result)
    assert clean_notebook(result, release()) == (result, [])
    ids = [grade_id(c) for c in result.cells if "nbgrader" in c.metadata]
    assert ids == [grade_id(c) for c in release().cells]
    return result, messages
