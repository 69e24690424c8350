"""Judging in other processes: the same verdicts, one gradebook, and nobody else's misfortune."""

import json
import multiprocessing
import os
import shutil
import signal
from dataclasses import asdict

import pytest
from classroom_kit import UNIT, code_answers, fill, fixed_figures, hand_in, paste_twice

from autograder import classroom, parallel, submissions
from autograder.__main__ import main
from autograder.assignment import build_release
from autograder.checks import figures
from autograder.parallel import JudgeDied, Processes, Task, judge_all, judge_task
from autograder.status import StatusError, only_grader, read_status, seed_number
from autograder.verdict import Judgement

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
FIGURES = asdict(fixed_figures())


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("term") / "class"
    classroom.release(classroom.create_classroom(folder, "en"), UNIT)
    return folder


@pytest.fixture
def room(released, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_measure", fixed_figures)
    monkeypatch.setattr(figures, "CACHE", tmp_path / "figures.json")
    monkeypatch.delenv("GRADER_SEED", raising=False)
    monkeypatch.setenv("CLASSROOM", str(tmp_path / "class"))
    shutil.copytree(released, tmp_path / "class")
    return classroom.open_classroom(tmp_path / "class")


def verdicts(room, student):
    file = room.notebook("autograded", UNIT, student).with_name("verdicts.json")
    return json.loads(file.read_text())


def grades(room, student):
    with room.api.gradebook as gradebook:
        found = gradebook.find_submission_notebook(UNIT, UNIT, student).grades
        return {g.name: (g.auto_score, g.needs_manual_grade) for g in found}


def test_two_jobs_give_what_one_gives(room, capsys):
    for student in ("ann", "bob", "cleo"):
        hand_in(room, student, fill)
    hand_in(room, "dan", fill, paste_twice)
    hand_in(room, "eve").write_text("{ not json")
    hand_in(room, "fay")
    students = ("ann", "bob", "cleo", "dan", "fay")
    one = submissions.autograde(room, UNIT)
    expected = [(verdicts(room, name), grades(room, name)) for name in students]
    capsys.readouterr()
    two = submissions.autograde(room, UNIT, force=True, pool=Processes(2))
    assert two == one
    assert [(verdicts(room, name), grades(room, name)) for name in students] == expected
    said = capsys.readouterr().out
    assert all(f"  {n}/6" in said for n in range(1, 7)) and "graded  6/6" in said
    assert grades(room, "ann")["main"] == (2.0, False)


def answered_task(student, figures=FIGURES):
    nb = build_release(UNIT, "en")
    for cell in nb.cells:
        cell.source = code_answers().get(cell.id, cell.source)
    return Task(student, json.dumps(nb).encode(), UNIT, 7, figures)


def test_a_judgement_is_plain_data_and_depends_on_the_task_alone():
    first, second = (judge_task(answered_task(name)) for name in ("ann", "bob"))
    assert first == second == json.loads(json.dumps(first))
    assert Judgement.from_json(first).to_json() == first


def test_figures_that_could_not_be_measured_are_said():
    found = Judgement.from_json(judge_task(answered_task("ann", "no model here")))
    assert (found["live"].verdict, found["live"].reason) == ("not_measured", "no model here")


def deadly(task):
    """Judge, unless the task is the one that kills the process it is in."""
    if task.student == "killer":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"student": task.student}


def test_a_killed_process_costs_one_submission_alone(monkeypatch):
    context = multiprocessing.get_context("fork")
    # Forked processes know the judge of this test.
    monkeypatch.setattr(parallel.multiprocessing, "get_context", lambda _: _Forked(context))
    monkeypatch.setattr(parallel, "judge_task", deadly)
    names = [f"s{n}" for n in range(9)]
    names.insert(3, "killer")
    results = dict(
        (task.student, result)
        for task, result in judge_all((answered_task(name) for name in names), Processes(2))
    )
    assert isinstance(results.pop("killer"), JudgeDied)
    assert results == {name: {"student": name} for name in names if name != "killer"}


class _Forked:
    """The fork context, which has no use for a list of modules to import first."""

    def __init__(self, context):
        self.context = context

    def set_forkserver_preload(self, modules):
        pass

    def __getattr__(self, name):
        return getattr(self.context, name)


def test_one_grader_at_a_time(room):
    with only_grader(room.path), pytest.raises(StatusError, match="another process is grading"):
        submissions.autograde(room, UNIT)
    assert submissions.autograde(room, UNIT) == []


def test_a_changed_seed_is_noted_with_the_grade_and_grades_again(room, monkeypatch):
    hand_in(room, "ann", fill)
    submissions.autograde(room, UNIT)
    assert read_status(room.path, UNIT, "ann").seed == 1
    monkeypatch.setenv("GRADER_SEED", "77")
    (status,) = submissions.autograde(room, UNIT)
    assert status.seed == 2
    assert seed_number(room.path, 77) == 2 and seed_number(room.path, 78) == 3
    assert "77" not in (room.path / ".graded/seeds").read_text().split()


def test_no_jobs_is_a_mistake(room, capsys):
    assert main(["autograde", "--jobs", "0"]) == 2
    assert "--jobs 0: at least one process" in capsys.readouterr().err
