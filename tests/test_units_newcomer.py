"""A newcomer completes a unit, and what keeps points back is told."""

import nbformat
import pytest

from autograder import newcomer
from autograder.judge import units
from autograder.sample_class import partly_right

QUICK = "lab08h"


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("unit", units())
def test_a_newcomer_gets_full_points_for_code(unit, tmp_path):
    way = newcomer.complete(unit, tmp_path)
    assert not way.problems
    assert way.points == way.max_points > 0


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.timeout(1800)
def test_wrong_lines_are_told(monkeypatch, tmp_path):
    monkeypatch.setattr(newcomer, "other_style", partly_right)
    way = newcomer.complete(QUICK, tmp_path)
    assert way.points < way.max_points
    assert "AssertionError" in way.problems[0] or "Rejected" in way.problems[0]
    assert any(": fail: " in problem for problem in way.problems)


def test_a_cell_that_fails_is_named(tmp_path):
    path = tmp_path / "a.ipynb"
    cells = [nbformat.v4.new_code_cell(text) for text in ("x = 1", "assert x == 2, 'x is one'")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    assert newcomer.run_all(path) == ["a cell fails: AssertionError: x is one"]
    cells[1].source = "assert x == 1"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    assert newcomer.run_all(path) == []
    assert nbformat.read(path, as_version=4).cells[0].execution_count == 1


def test_nothing_is_validated_that_is_not_there(tmp_path):
    (problem,) = newcomer.validate(tmp_path / "missing.ipynb")
    assert problem.startswith("Validate: ")
