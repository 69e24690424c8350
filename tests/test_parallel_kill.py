"""Kill the grading at any moment and start it again: nothing lost, nothing twice, the same grades.

The clock that decides when is the process's own: it counts what it opens, renames and removes in
the classroom and says to the database, so that a kill falls between any two writes, on a fast
machine and a slow one.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from classroom_kit import UNIT, fill, fixed_figures, hand_in

from autograder import classroom, submissions
from autograder.assignment import ROOT
from autograder.checks import figures
from autograder.status import read_status, status_file

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
STUDENTS = ("ada", "bob", "cleo", "dan")
DECIDED = {"q1": 2.0, "q2": 1.5, "q3": 0.0}
GRADER = """
import os, signal, sys
from pathlib import Path
import sqlalchemy
from autograder.__main__ import main
from autograder.checks import figures
from classroom_kit import fixed_figures
import autograder.submissions

figures._measure, figures.CACHE = fixed_figures, Path(sys.argv[1])
last, count = int(sys.argv[2]), 0
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}
here = os.path.realpath(os.environ["CLASSROOM"])

def heard(event, args):
    # In the classroom only: what else is opened depends on the machine and on who judges.
    if event in EVENTS and isinstance(args[0], (str, os.PathLike)):
        if os.path.abspath(os.fspath(args[0])).startswith(here):
            tick()

def tick(*_):
    global count
    count += 1
    if count == last:
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(heard)
for event in ("before_cursor_execute", "commit"):
    sqlalchemy.event.listen(sqlalchemy.Engine, event, tick)
status = main(["autograde", *sys.argv[3:]])
print(count, file=sys.stderr)
sys.exit(status)
"""


def grade(room, kill_at=0, jobs=1):
    """Grade in a process of its own, which kills itself at the given tick; its exit and ticks."""
    command = [sys.executable, "-c", GRADER, str(room.path / "figures.json"), str(kill_at)]
    env = os.environ | {
        "CLASSROOM": str(room.path),
        "GRADER_SEED": "5",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }
    run = subprocess.run(
        [*command, "--jobs", str(jobs)], env=env, cwd=ROOT, capture_output=True, text=True
    )
    ticks = int(run.stderr.split()[-1]) if run.returncode == 0 else 0
    return run.returncode, ticks, run.stdout


@pytest.fixture(scope="module")
def term(tmp_path_factory):
    """A class that is due again: one was graded, by a person too; then the seed changed."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("term")
        patch.setattr(figures, "_measure", fixed_figures)
        patch.setattr(figures, "CACHE", folder / "figures.json")
        patch.setenv("GRADER_SEED", "4")
        room = classroom.create_classroom(folder / "class", "en")
        classroom.release(room, UNIT)
        hand_in(room, "ada", fill)
        submissions.autograde(room, UNIT)
        with room.api.gradebook as gradebook:
            for name, score in DECIDED.items():
                found = gradebook.find_grade(name, UNIT, UNIT, "ada")
                found.manual_score, found.needs_manual_grade = score, False
            gradebook.db.commit()
        hand_in(room, "bob")
        hand_in(room, "cleo", fill).write_text("{ not json")
        hand_in(room, "dan", fill, name="homework.ipynb")
        return room


def copy_of(room, folder):
    shutil.copytree(room.path, folder)
    return classroom.open_classroom(folder)


def state(room):
    """All that grading leaves behind, in gradebook and files."""
    found = {}
    with room.api.gradebook as gradebook:
        rows = [(row.student.id, row) for row in gradebook.assignment_submissions(UNIT)]
        for student, row in rows:
            (notebook,) = row.notebooks
            found[student, "marks"] = {
                g.name: (g.auto_score, g.manual_score, g.needs_manual_grade)
                for g in notebook.grades
            }
        found["rows"] = sorted(student for student, _ in rows)
    for student in STUDENTS:
        found[student, "status"] = read_status(room.path, UNIT, student)
        folder = room.notebook("autograded", UNIT, student).parent
        names = sorted(path.name for path in folder.glob("*"))
        found[student, "files"] = names
        if "verdicts.json" in names:
            found[student, "verdicts"] = json.loads((folder / "verdicts.json").read_text())
    return found


def done(room):
    """When each submission that counts as done was written."""
    times = {}
    for student in STUDENTS:
        status = read_status(room.path, UNIT, student)
        if status and status.seed == 2:
            times[student] = status_file(room.path, UNIT, student).stat().st_mtime_ns
    return times


@pytest.fixture(scope="module")
def undisturbed(term, tmp_path_factory):
    """(state, ticks) of a run that nobody killed."""
    room = copy_of(term, tmp_path_factory.mktemp("undisturbed") / "class")
    code, ticks, _ = grade(room)
    assert code == 0 and ticks > 300
    return state(room), ticks


def test_what_the_undisturbed_run_gives(undisturbed):
    found, _ = undisturbed
    assert found["rows"] == ["ada", "bob", "dan"]
    assert found["ada", "marks"]["q2"] == (None, 1.5, False)
    assert found["dan", "marks"]["main"] == (2.0, None, False)
    assert found["cleo", "status"].state == "unreadable"


def kill_and_go_on(term, undisturbed, folder, part, jobs):
    expected, ticks = undisturbed
    room = copy_of(term, folder)
    code, _, _ = grade(room, max(1, int(part * ticks)), jobs)
    assert code == -signal.SIGKILL
    before = done(room)
    code, _, said = grade(room, jobs=jobs)
    assert code == 0
    assert state(room) == expected
    # What was done before the kill was left alone, and all is done now.
    assert before.items() <= done(room).items()
    assert said.count("(up to date)") == len(before)


# One point in each part of the run, so that all of it is covered.
def points(number):
    rng = random.Random(2026)
    return [(n + rng.random()) / number * 0.97 for n in range(number)]


@pytest.mark.parametrize("part", points(3))
def test_a_killed_run_goes_on(term, undisturbed, tmp_path, part):
    kill_and_go_on(term, undisturbed, tmp_path / "class", part, jobs=1)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "part"), list(enumerate(points(20))))
def test_a_run_killed_at_twenty_points_goes_on(term, undisturbed, tmp_path, number, part):
    kill_and_go_on(term, undisturbed, tmp_path / "class", part, jobs=1 + number % 2)


def test_no_judge_outlives_its_grader(term, tmp_path, monkeypatch):
    room = copy_of(term, tmp_path / "class")
    mark = f"KILL_TEST={tmp_path.name}"
    monkeypatch.setenv(*mark.split("="))
    assert grade(room, 200, jobs=2)[0] == -signal.SIGKILL
    for _ in range(300):
        left = processes_with(mark)
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(f"still there: {left}")


def processes_with(mark):
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.name != str(os.getpid()) and mark.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes())
        except OSError:
            continue
    return found
