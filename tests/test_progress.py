"""Progress is derived by running the public checks, and kept only while nothing changes."""

import json

import nbformat
import pytest

from autograder import lab
from autograder.fill_ins import fill_ins, filled
from lessons.lib import progress, start_page

UNIT = "lesson07"


@pytest.fixture
def student(tmp_path):
    """A student's folder with one unit as released."""
    lab.student_copy(UNIT, "en", tmp_path)
    return tmp_path


def notebook(student):
    return student / UNIT / f"{UNIT}.ipynb"


def test_an_untouched_unit_has_none_and_a_right_one_all(student):
    assert progress.progress(notebook(student)) == progress.Progress(0, 3)
    right = next(item for item in fill_ins(UNIT) if item.kind == "right")
    nbformat.write(filled(UNIT, right.text), notebook(student))
    assert progress.progress(notebook(student)) == progress.Progress(3, 3)


def test_the_public_checks_of_lesson_8_are_counted_like_those_of_other_units(tmp_path):
    """Two of three when the cost model is right and no source is named."""
    path, _ = lab.student_copy("lesson08", "en", tmp_path)
    assert progress.progress(path) == progress.Progress(0, 3)
    nb = nbformat.read(path, as_version=4)
    (text,) = [i.text for i in fill_ins("lesson08") if i.name == "right/cost_horner"]
    next(cell for cell in nb.cells if cell.id == "acceptance_cost_model").source = text
    nbformat.write(nb, path)
    assert progress.progress(path) == progress.Progress(2, 3)
    assert "| 2 of 3 |" in start_page.table(tmp_path)


def test_it_is_kept_while_nothing_changes(student, monkeypatch):
    first = progress.progress(notebook(student))
    monkeypatch.setattr(progress, "_run_apart", lambda path: progress.Progress(9, 9))
    assert progress.progress(notebook(student)) == first
    path = notebook(student)
    path.write_text(path.read_text() + "\n")
    assert progress.progress(path) == progress.Progress(9, 9)


def test_a_damaged_cache_counts_as_none(student, monkeypatch):
    (student / UNIT / progress.CACHE).write_text("[")
    monkeypatch.setattr(progress, "_run_apart", lambda path: progress.Progress(1, 3))
    assert progress.progress(notebook(student)).num_right == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [("while True: pass", "endless loop"), ("import os; os._exit(3)", "could not be run")],
)
def test_a_notebook_that_cannot_be_run_is_named(student, monkeypatch, source, words):
    monkeypatch.setattr(progress, "TIMEOUT_S", 3.0)
    nb = nbformat.read(notebook(student), as_version=4)
    next(cell for cell in nb.cells if cell.id == "verify_chain").source = source
    nbformat.write(nb, notebook(student))
    found = progress.progress(notebook(student))
    assert words in found.note and (found.num_right, found.num_checks) == (0, 0)


def test_the_start_page_lists_the_units_in_order_of_study(student, monkeypatch):
    monkeypatch.setattr(start_page, "progress", lambda path: progress.Progress(1, 3))
    for unit in ("lesson08", "lab08a"):
        (student / unit).mkdir()
        nb = {"cells": [], "metadata": {"course": {"title": f"Unit | {unit}"}}}
        (student / unit / f"{unit}.ipynb").write_text(json.dumps(nb))
    page = nbformat.read(start_page.write_start_page(student), as_version=4)
    nbformat.validate(page)
    text = page.cells[1].outputs[0].data["text/markdown"]
    links = [line.split("](")[1].split(")")[0] for line in text.splitlines() if "](" in line]
    assert links == [f"{unit}/{unit}.ipynb" for unit in ("lesson07", "lesson08", "lab08a")]
    assert text.count("1 of 3") == 3 and "Unit \\| lab08a" in text


def test_the_chinese_page_is_chinese(student, monkeypatch):
    monkeypatch.setattr(start_page, "progress", lambda path: progress.Progress(1, 3))
    page = nbformat.read(start_page.write_start_page(student, "zh"), as_version=4)
    assert "投机解码" in page.cells[0].source
    assert "1 / 3" in page.cells[1].outputs[0].data["text/markdown"]
