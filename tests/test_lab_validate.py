"""What a student does in a shell: a copy that is never overwritten, and `nbgrader validate`."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from classroom_kit import UNIT, fill
from lab_kit import student_environment

from autograder import lab
from autograder.assignment import ROOT


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    found = student_environment(tmp_path_factory.mktemp("home"))
    return found | {"PYTHONPATH": f"{ROOT}:{found['PYTHONPATH']}"}


def validate(path: Path, environment) -> str:
    command = [sys.executable, "-m", "nbgrader", "validate", path.name]
    done = subprocess.run(
        command, cwd=path.parent, env=environment, capture_output=True, text=True, timeout=500
    )
    return done.stdout + done.stderr


def test_the_students_copy_is_made_once_and_then_kept(tmp_path):
    path, is_new = lab.student_copy(UNIT, "zh", tmp_path)
    assert is_new and nbformat.read(path, as_version=4).metadata["course"]["lang"] == "zh"
    path.write_text("my work")
    assert lab.student_copy(UNIT, "zh", tmp_path) == (path, False)
    assert path.read_text() == "my work"


def test_validate_passes_a_filled_notebook(tmp_path, environment):
    path, _ = lab.student_copy(UNIT, "en", tmp_path)
    nb = nbformat.read(path, as_version=4)
    fill(nb, {cell.id: cell for cell in nb.cells})
    nbformat.write(nb, path)
    assert "Success! Your notebook passes all the tests." in validate(path, environment)


def test_validate_names_what_is_not_filled_in(tmp_path, environment):
    path, _ = lab.student_copy(UNIT, "en", tmp_path)
    nb = nbformat.read(path, as_version=4)
    # Without the measurements, which take a while and add nothing here.
    nb.cells = [
        cell
        for cell in nb.cells
        if cell.metadata.get("course_role") != "practice" and cell.id != "live"
    ]
    nbformat.write(nb, path)
    said = validate(path, environment)
    assert "VALIDATION FAILED ON 6 CELL(S)" in said
    assert "the blank in cell acceptance_cost_model is not filled in" in said
    assert said.count("You did not provide a response.") == 3


def test_validate_says_that_a_locked_cell_was_changed(tmp_path, environment):
    path, _ = lab.student_copy(UNIT, "en", tmp_path)
    nb = nbformat.read(path, as_version=4)
    nb.cells = [cell for cell in nb.cells if cell.id in ("setup", "main")]
    nb.cells[-1].source = "assert True"
    nbformat.write(nb, path)
    assert "THE CONTENTS OF 1 TEST CELL(S) HAVE CHANGED!" in validate(path, environment)


@pytest.mark.parametrize(
    ("given", "handed_on"),
    [
        (["--port", "8890", "--no-browser"], ["--no-browser", "--port=8890"]),
        (["--port=8890"], ["--port=8890"]),
        (["--ip", "0.0.0.0", UNIT], ["--ip=0.0.0.0"]),
        (["--ServerApp.password=x"], ["--ServerApp.password=x"]),
    ],
)
def test_options_reach_jupyterlab(tmp_path, monkeypatch, given, handed_on):
    started = []
    monkeypatch.setattr(lab, "start_lab", lambda folder, options: started.append(options))
    lab.main(["lab", "--folder", str(tmp_path), *given])
    assert started[0][1:] == handed_on
