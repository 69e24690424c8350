"""A submission is rebuilt from the release: answers are kept, everything else is restored."""

import copy
import json

import nbformat
import pytest
from grader_case import COST, MAP, cell, cleaned, fill_in, release, submission
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.handed_in import Unreadable
from autograder.intake import (
    MAX_CELL_CHARS,
    MAX_EXTRA_CELLS,
    clean,
    defined_names,
    grade_id,
)

RIGHT = fill_in("right/cost_cumulative_product")


def graded_cost(notebook):
    result, messages = cleaned(notebook)
    return cell(result, COST).source, messages


def duplicate(notebook, name, source, at=None):
    """A pasted copy: JupyterLab keeps the metadata and gives a new id."""
    copied = copy.deepcopy(cell(notebook, name))
    copied.id, copied.source = "pasted", source
    place = notebook.cells.index(cell(notebook, name)) + 1 if at is None else at
    notebook.cells.insert(place, copied)
    return notebook


def test_an_honest_submission_needs_no_repair():
    result, messages = cleaned(submission(q1="Mine.", extra=["x = 1"]))
    assert messages == []
    assert (cell(result, COST).source, cell(result, "q1").source) == (RIGHT, "Mine.")
    place = result.cells.index(cell(result, COST))
    assert result.cells[place + 1].source == "x = 1"


def test_what_a_browser_does_to_a_notebook_is_no_damage():
    """JavaScript writes 2.0 as 2; JupyterLab adds its own keys, outputs and counts."""
    text = json.dumps(submission()).replace('"points": 2.0', '"points": 2')
    notebook = json.loads(text)
    for c in notebook["cells"]:
        c["metadata"] |= {"collapsed": False, "jupyter": {"source_hidden": True}, "trusted": True}
        c["source"] = c["source"].splitlines(keepends=True)
        if c["cell_type"] == "code":
            c["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "2.64"}]
            c["execution_count"] = 7
    result, messages = cleaned(notebook)
    assert messages == []
    assert all(not c.outputs and c.execution_count is None for c in result.cells if "outputs" in c)


# Answer cells


def test_identical_copies_are_harmless():
    source, messages = graded_cost(duplicate(submission(), COST, RIGHT))
    assert (source, messages) == (RIGHT, [])


@pytest.mark.parametrize("at", [None, 0])
def test_of_differing_copies_the_original_counts(at):
    source, messages = graded_cost(duplicate(submission(), COST, RIGHT + "\nx = 1", at))
    assert source == RIGHT
    assert len(messages) == 1 and "cell acceptance_cost_model is there 2 times" in messages[0]


def test_a_filled_in_copy_beats_an_untouched_original():
    notebook = duplicate(release(), COST, RIGHT)
    source, messages = graded_cost(notebook)
    assert source == RIGHT and "the copy that is filled in counts" in messages[0]


def test_a_split_answer_is_read_as_one():
    first, second = RIGHT.split("\n\n\ndef choose")
    notebook = submission(cost=first)
    source, messages = graded_cost(duplicate(notebook, COST, "def choose" + second))
    assert set(defined_names(source)) == {"expected_tokens_per_round", "choose_spec_method"}
    assert messages == ["cell acceptance_cost_model is there in 2 parts: read as one"]


def test_a_cell_without_its_metadata_is_known_by_its_id():
    notebook = submission()
    cell(notebook, COST).metadata = {}
    source, messages = graded_cost(notebook)
    assert source == RIGHT and "known by its cell id" in messages[0]


def test_a_cell_that_lost_both_is_known_by_what_it_defines():
    notebook = submission()
    lost = cell(notebook, COST)
    lost.metadata, lost.id = {}, "new"
    source, messages = graded_cost(notebook)
    assert source == RIGHT and "your own cell that defines the same names" in messages[0]


def test_an_answer_written_into_a_new_cell_counts_if_the_blank_is_untouched():
    notebook = release()
    notebook.cells.append(new_code_cell(RIGHT))
    result, messages = cleaned(notebook)
    assert cell(result, COST).source == RIGHT and len(messages) == 1
    assert sum(c.source == RIGHT for c in result.cells) == 1


def test_scratch_that_defines_the_same_names_does_not_displace_an_answer():
    source, messages = graded_cost(submission(extra=[RIGHT + "\n# scratch"]))
    assert (source, messages) == (RIGHT, [])


def test_a_deleted_answer_is_put_back_empty():
    notebook = submission()
    notebook.cells.remove(cell(notebook, MAP))
    result, messages = cleaned(notebook)
    assert cell(result, MAP).source == cell(release(), MAP).source
    assert messages == ["cell source_objects was missing: put back, not filled in"]


@pytest.mark.parametrize("kind", ["markdown", "raw", "nonsense"])
def test_a_retyped_answer_is_code_again(kind):
    notebook = json.loads(json.dumps(submission()))
    next(c for c in notebook["cells"] if c["id"] == COST)["cell_type"] = kind
    result, messages = cleaned(notebook)
    assert (cell(result, COST).cell_type, cell(result, COST).source) == ("code", RIGHT)
    assert "acceptance_cost_model had become" in messages[0]


def test_an_oversized_cell_is_not_read():
    notebook = submission(cost="#" * (MAX_CELL_CHARS + 1), q1="x" * (MAX_CELL_CHARS + 1))
    notebook.cells.append(new_code_cell("y" * (MAX_CELL_CHARS + 1)))
    result, messages = cleaned(notebook)
    assert cell(result, COST).source == cell(result, "q1").source == ""
    assert [m.split()[1] for m in messages] == [COST, "q1", "number"]


# Locked cells and metadata


def test_locked_cells_are_restored():
    notebook = submission()
    cell(notebook, "main").source = "assert True"
    cell(notebook, "setup").cell_type = "raw"
    notebook.cells.remove(cell(notebook, "boundary"))
    result, messages = cleaned(notebook)
    assert [cell(result, n) for n in ("main", "setup", "boundary")] == [
        cell(release(), n) for n in ("main", "setup", "boundary")
    ]
    assert "locked cells that were missing: put back: boundary" in messages
    assert "locked cells that were changed: restored: setup, main" in messages


def test_grading_data_and_tags_are_restored_and_named():
    notebook = submission()
    cell(notebook, "main").metadata.nbgrader.points = 99
    cell(notebook, "boundary").metadata.tags = ["skip-execution"]
    cell(notebook, COST).metadata.nbgrader.grade = True
    cell(notebook, MAP).metadata.anything = {"else": 1}
    notebook.metadata.anything = 1
    result, messages = cleaned(notebook)
    assert result.metadata == release().metadata
    for name in ("main", "boundary", COST, MAP):
        assert cell(result, name).metadata == cell(release(), name).metadata
    assert set(messages) == {
        "the grading data of cell main was changed: restored",
        "the grading data of cell acceptance_cost_model was changed: restored",
        "cell boundary was tagged 'skip-execution': tags are removed",
    }


def test_a_renamed_cell_is_both_known_by_id_and_put_right():
    notebook = submission()
    cell(notebook, "main").metadata.nbgrader.grade_id = "mine"
    result, messages = cleaned(notebook)
    assert grade_id(cell(result, "main")) == "main"
    assert messages == ["cell main was renamed to 'mine': restored"]


def test_order_is_restored():
    notebook = submission()
    notebook.cells.reverse()
    result, messages = cleaned(notebook)
    assert [c.id for c in result.cells] == [c.id for c in release().cells] and messages == []


def test_another_notebook_is_told_apart():
    other = nbformat.v4.new_notebook(cells=[new_code_cell("x = 1")])
    result, messages = cleaned(other)
    assert messages[0] == "none of the lesson's cells is in this file: is it the right one?"
    assert sum(c.source == "x = 1" for c in result.cells) == 1


# The student's own cells


def test_own_cells_keep_text_and_place_and_lose_the_rest():
    notebook = submission()
    own = [
        new_code_cell("a = 1", id="own", metadata={"tags": ["x"], "nbgrader": {"grade_id": "q9"}})
    ]
    own += [new_markdown_cell("note"), new_code_cell("  "), new_code_cell("b = 2", id="own")]
    notebook.cells[3:3] = own
    result, messages = cleaned(notebook)
    extras = [c for c in result.cells if c.metadata.get("course_role") == "extra"]
    assert [c.source for c in extras] == ["a = 1", "note", "b = 2"]
    assert all(c.metadata == {"course_role": "extra"} for c in extras)
    assert result.cells[3:6] == extras and messages == []


def test_own_cells_are_bounded():
    notebook = submission(extra=[f"x = {n}" for n in range(MAX_EXTRA_CELLS + 5)])
    result, messages = cleaned(notebook)
    assert len(result.cells) == len(release().cells) + MAX_EXTRA_CELLS
    assert messages == [f"only the first {MAX_EXTRA_CELLS} of your own cells were read"]


# Files


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"PK\x03\x04 a zip", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b"[]", "not a notebook"),
        (b"{}", "not a notebook"),
        (b'{"cells": {}}', "not a notebook"),
        (b'{"worksheets": [], "nbformat": 3}', "an old one (format 3)"),
        ("no JSON either", "not JSON"),
    ],
)
def test_an_unreadable_file_says_what_to_do(content, words):
    with pytest.raises(Unreadable, match="submit") as caught:
        clean(content, release())
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_huge_file_is_refused(monkeypatch):
    monkeypatch.setattr("autograder.handed_in.MAX_SUBMISSION_BYTES", 10)
    with pytest.raises(Unreadable, match="clear all outputs"):
        clean(b"{" + b" " * 20 + b"}", release())


def test_a_byte_order_mark_is_no_damage():
    text = json.dumps(submission())
    assert clean(b"\xef\xbb\xbf" + text.encode(), release())[1] == []
    assert clean("\ufeff" + text, release())[1] == []
