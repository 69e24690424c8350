"""`python -m autograder grade`, the seed behind it, and the words a verdict may use."""

import json
import math
import stat

import nbformat
import pytest
from grader_case import FIGURES, release, submission

from autograder.__main__ import main
from autograder.seed import SeedError, grader_seed
from autograder.verdict import Judgement, Verdict


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder as the working directory, with fixed figures in place of a measurement."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRADER_SEED", raising=False)
    monkeypatch.setenv("CLASSROOM", str(tmp_path / "room"))
    monkeypatch.setattr("autograder.checks.figures._measure", lambda: FIGURES)
    nbformat.write(submission(), tmp_path / "lesson08.ipynb")
    return tmp_path


def test_json_has_exactly_the_documented_shape(files, capsys):
    assert main(["grade", "lesson08.ipynb", "--seed", "5", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == ["unit", "total", "max", "isolation", "checks"]
    assert (result["unit"], result["total"], result["max"]) == ("lesson08", 4, 10)
    assert [c["id"] for c in result["checks"]] == [
        *("main", "boundary", "source_map", "live", "q1", "q2", "q3")
    ]
    assert [c["max"] for c in result["checks"]] == [2, 1, 1, 0, 2, 2, 2]
    shape = ["id", "points", "max", "verdict", "reason", "hint", "values"]
    assert all(list(c) == shape for c in result["checks"])
    assert all(bool(c["hint"]) == (c["verdict"] != "pass") for c in result["checks"])
    assert result["checks"][3]["values"]["speedup"] > result["checks"][3]["values"]["bar"]


def test_the_table_shows_every_check_and_the_repairs(files, capsys):
    notebook = submission()
    notebook.cells = [c for c in notebook.cells if c.id != "boundary"]
    nbformat.write(notebook, "lesson08.ipynb")
    assert main(["grade", "lesson08.ipynb", "--seed", "5"]) == 0
    output = capsys.readouterr()
    assert "isolation: " in output.out and "total 4 of 10" in output.out
    assert "note: locked cells that were missing: put back: boundary" in output.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.ipynb"], "missing.ipynb: cannot be read (No such file"),
        (["."], "cannot be read"),
        (["text.ipynb"], "text.ipynb: the file is not a notebook"),
        (["lesson08.ipynb", "--seed", "abc"], "--seed: 'abc' is not a seed"),
        (["lesson08.ipynb", "--seed", "-1"], "--seed: '-1' is not a seed"),
        (["lesson08.ipynb", "--seed", "1.5"], "--seed: '1.5' is not a seed"),
        (["lesson99.ipynb"], "unknown unit 'lesson99'"),
        (["other.ipynb"], "which unit is this?"),
    ],
)
def test_bad_input_is_one_line_and_status_2(files, capsys, arguments, words):
    (files / "text.ipynb").write_text("no notebook")
    foreign = release()
    del foreign.metadata["course"]
    for name in ("lesson99.ipynb", "other.ipynb"):
        nbformat.write(foreign, files / name)
    if arguments[:1] == ["."]:
        arguments = [str(files)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADER_SEED", "1")
        assert main(["grade", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and words in error and error.count("\n") == 1


def test_the_unit_is_found_by_file_name_too(files, capsys):
    notebook = submission()
    del notebook.metadata["course"]
    nbformat.write(notebook, "lesson08_late.ipynb")
    assert main(["grade", "lesson08_late.ipynb", "--seed", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"] == 4


# The seed


def test_the_seed_is_made_once_and_private(files):
    seed = grader_seed()
    path = files / "room" / "grader_seed"
    assert grader_seed() == seed == int(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["grader_seed"]
    path.unlink()
    assert grader_seed() != seed


def test_argument_beats_variable_beats_file(files, monkeypatch):
    grader_seed()
    monkeypatch.setenv("GRADER_SEED", "22")
    assert (grader_seed(), grader_seed("33")) == (22, 33)


def test_a_damaged_seed_file_is_named(files):
    room = files / "room"
    room.mkdir()
    for content in (b"", b"abc", b"\xff\xfe"):
        (room / "grader_seed").write_bytes(content)
        with pytest.raises(SeedError, match="room/grader_seed"):
            grader_seed()


# Verdicts


@pytest.mark.parametrize("points", [-0.1, 2.1, math.nan, math.inf])
def test_points_outside_the_range_are_an_error(points):
    with pytest.raises(ValueError, match="outside"):
        Verdict("main", points, 2.0, "pass", "r")


def test_an_unknown_verdict_is_an_error():
    with pytest.raises(ValueError, match="unknown verdict"):
        Verdict("main", 0.0, 2.0, "perhaps", "r")  # type: ignore[arg-type]


def test_only_scores_are_scored():
    scored = [
        name
        for name in ("pass", "fail", "invalid", "inconclusive", "not_measured")
        if Verdict("x", 0.0, 1.0, name, "r").is_scored
    ]
    assert scored == ["pass", "fail", "invalid"]


def test_a_judgement_adds_up():
    checks = tuple(Verdict(n, p, 1.0, "fail", "r") for n, p in (("a", 0.1), ("b", 0.2)))
    judgement = Judgement("lesson08", "rlimits", checks)
    assert (judgement.total, judgement.max, judgement["b"].points) == (0.3, 2.0, 0.2)
    with pytest.raises(KeyError):
        judgement["c"]


def test_a_notebook_nested_beyond_reason_gets_a_verdict(files, capsys):
    for depth in (100, 400, 900, 5000):
        deep = "[" * depth + "]" * depth
        (files / "lesson08.ipynb").write_text('{"cells": [], "metadata": {"x": ' + deep + "}}")
        status = main(["grade", "lesson08.ipynb", "--seed", "5"])
        output = capsys.readouterr()
        assert (status, "total 0 of 10" in output.out) in ((0, True), (2, False))
        assert "Traceback" not in output.err
