"""What keeps one hand-in from taking the grader's memory or time: each limit, and what it says."""

import json
import time

import pytest
from grader_case import cell, cleaned, release, submission
from nbconvert.filters import markdown2html
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder import status, submissions
from autograder.handed_in import MAX_PARTS, Unreadable
from autograder.intake import MAX_EXTRA_CHARS, MAX_TEXT_CHARS, clean
from autograder.preprocessors import MAX_ENVIRONMENTS, harmless


def test_a_file_of_a_million_parts_is_refused_before_it_is_parsed(monkeypatch):
    released = release()
    bomb = '{"cells": [' + "{}," * MAX_PARTS + "{}]}"
    with monkeypatch.context() as patch:
        patch.setattr(json, "loads", lambda *args, **options: pytest.fail("it was parsed"))
        with pytest.raises(Unreadable, match="over a million parts"):
            clean(bomb, released)
    fine = '{"cells": [' + "{}," * 1000 + "{}]}"
    assert clean(fine, release())


def test_a_text_that_is_too_long_is_not_read_and_a_code_of_that_length_is():
    notebook = submission(q1="x" * (MAX_TEXT_CHARS + 1), q2="x" * MAX_TEXT_CHARS)
    cell(notebook, "source_objects").source += "\n#" + "y" * MAX_TEXT_CHARS
    result, messages = cleaned(notebook)
    assert messages == ["cell q1 holds over 20,000 characters: it was not read"]
    assert cell(result, "q1").source == ""
    assert len(cell(result, "q2").source) == MAX_TEXT_CHARS


@pytest.mark.parametrize("make", [new_code_cell, new_markdown_cell])
def test_extra_cells_share_one_budget(make):
    notebook = submission()
    size = MAX_TEXT_CHARS - 1
    notebook.cells += [make("z" * size) for _ in range(50)]
    result, messages = cleaned(notebook)
    num_read = MAX_EXTRA_CHARS // size
    assert messages == [f"only the first {num_read} of your own cells were read"]
    assert sum(c.source.startswith("zz") for c in result.cells) == num_read


def test_many_open_environments_are_not_looked_for():
    few = "$$\\begin{aligned} a &= b \\end{aligned}$$\n" * MAX_ENVIRONMENTS
    assert harmless(few) == few
    many = harmless("\\begin{a}\n" * (MAX_ENVIRONMENTS + 1))
    assert "\\begin" not in many and "begin{a}" in markdown2html(many)


def test_a_bottomless_timestamp_holds_no_time(tmp_path):
    stamp = tmp_path / "timestamp.txt"
    with stamp.open("wb") as file:
        file.truncate(64 << 30)
    assert submissions.stage_timestamp(stamp, tmp_path) == [
        "timestamp.txt holds no time and was left out"
    ]


def test_a_huge_file_is_known_by_its_size_and_time(tmp_path, monkeypatch):
    file = tmp_path / "data.bin"
    with file.open("wb") as opened:
        opened.truncate(64 << 30)
    monkeypatch.setattr(status.hashlib, "file_digest", lambda *args: pytest.fail("it was read"))
    before = status.content_digest(file)
    assert before == status.content_digest(file)
    time.sleep(0.01)
    with file.open("r+b") as opened:
        opened.write(b"changed")
    assert before != status.content_digest(file)


@pytest.mark.parametrize("which", ["folder", "student"])
def test_a_link_in_place_of_what_is_handed_in_is_refused(tmp_path, which):
    real = tmp_path / "source/lesson08"
    real.mkdir(parents=True)
    (real / "lesson08.ipynb").write_text("{}")
    submitted = tmp_path / "submitted"
    if which == "folder":
        (submitted / "eve").mkdir(parents=True)
        (submitted / "eve/lesson08").symlink_to(real)
    else:
        submitted.mkdir()
        (submitted / "eve").symlink_to(tmp_path / "source")
    with pytest.raises(submissions.SubmissionError, match="is a link"):
        submissions.find_notebook(submitted / "eve/lesson08", "lesson08")
