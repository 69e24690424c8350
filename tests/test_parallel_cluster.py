"""Judging on a Dask cluster: a real scheduler and separate workers, one killed on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from classroom_kit import UNIT, fill, hand_in

from autograder import classroom, cluster, submissions
from autograder.__main__ import main
from autograder.assignment import ROOT
from autograder.cluster import Cluster, ClusterError, _Parts, put_together
from autograder.judge import checks_of
from autograder.parallel import Processes, Task
from autograder.verdict import Judgement, Verdict

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
TESTS = ROOT / "tests"
WORKER = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--preload"]


def start(*arguments):
    """A Dask process of its own."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(TESTS)])}
    command = [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]]
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """(address of the scheduler, worker with a GPU resource, plain worker)."""
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    local = ["--local-directory", str(folder)]
    here = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    processes = [start("scheduler", *here, "--scheduler-file", str(file))]
    try:
        wait_for(file.exists)
        address = json.loads(file.read_text())["address"]
        preload = [*WORKER, str(TESTS / "cluster_worker.py"), *local]
        processes.append(start("worker", address, *preload, "--resources", "GPU=1"))
        processes.append(start("worker", address, *preload))
        wait_for(lambda: num_workers(address) == 2)
        yield address, *processes[1:]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("the Dask cluster did not start")


def num_workers(address):
    try:
        return Cluster(address).size
    except ClusterError:
        return 0


@pytest.fixture
def room(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADER_SEED", "5")
    made = classroom.create_classroom(tmp_path / "class", "en")
    classroom.release(made, UNIT)
    for number in range(6):
        hand_in(made, f"s{number}", fill)
    hand_in(made, "s6")
    return made


def verdicts(room):
    found = {}
    for student in room.students(UNIT):
        file = room.notebook("autograded", UNIT, student).with_name("verdicts.json")
        found[student] = json.loads(file.read_text())
    return found


def without_place(found):
    """The same verdicts, but for the worker that made each (`cluster_worker`)."""
    for judgement in found.values():
        for check in judgement["checks"]:
            check["values"].pop("worker", None)
    return found


@pytest.mark.slow
def test_other_sources_are_refused(dask, monkeypatch):
    monkeypatch.setattr(submissions, "GRADER_SOURCES", ("Makefile",))
    with pytest.raises(ClusterError, match="does not run these sources"):
        Cluster(dask[0])


@pytest.mark.slow
def test_a_worker_that_changes_its_sources_judges_nobody(dask, room, monkeypatch):
    """Also one that joins after the start was checked."""
    pool = Cluster(dask[0])
    monkeypatch.setattr(submissions, "GRADER_SOURCES", ("Makefile",))
    (status,) = submissions.autograde(room, UNIT, "s0", pool=pool)
    assert status.state == "failed" and "does not run the sources" in status.messages[0]


@pytest.mark.slow
def test_what_rests_on_the_cards_figures_is_judged_on_the_card(dask, room):
    statuses = submissions.autograde(room, UNIT, pool=Cluster(dask[0]))
    assert [status.state for status in statuses] == ["graded"] * 7
    checks = [check for found in verdicts(room).values() for check in found["checks"]]
    places = {(check["id"], check["values"]["worker"]) for check in checks}
    assert {place for name, place in places if name == "live"} == {"gpu"}
    assert ("main", "plain") in places, "the other worker has work too"


def test_two_parts_are_one_judgement_in_the_units_order():
    """One part was made with process limits only, which must show."""
    names = [*checks_of(UNIT).CHECKS, "q1"]
    whole = {n: Verdict(n, 1.0, 1.0, "pass", f"{n} is right") for n in names}
    rest = Judgement(UNIT, "bubblewrap", tuple(whole[n] for n in names if n != "live"))
    card = Judgement(UNIT, "rlimits", (whole["live"], whole["q1"]))
    found = put_together(UNIT, rest.to_json(), card.to_json())
    assert found == Judgement(UNIT, "bubblewrap and rlimits", tuple(whole.values())).to_json()
    same = replace(card, isolation="bubblewrap")
    assert put_together(UNIT, rest.to_json(), same.to_json())["isolation"] == "bubblewrap"


def test_only_what_needs_the_card_goes_there_and_only_where_there_is_one():
    sent = []

    class Recorder:
        def submit(self, function, *arguments, **options):
            sent.append((function.__name__, arguments, options))
            return len(sent)

    task = Task("amy", b"", UNIT, 7, "no figures")
    _Parts(Recorder(), Recorder(), "d").submit(None, task)
    assert sent[0][1] == (task, {"live"}, "d") and "resources" not in sent[0][2]
    assert sent[1][1] == (task, {"main", "boundary", "source_map"}, "d")
    assert sent[1][2]["resources"] == {"GPU": 1}
    assert sent[2][:2] == ("put_together", (UNIT, 1, 2))
    for client, unit in ((None, UNIT), (Recorder(), "lab08a")):
        del sent[:]
        _Parts(Recorder(), client, "d").submit(None, replace(task, unit=unit))
        assert [(name, arguments[1]) for name, arguments, _ in sent] == [("judge_there", ())]


@pytest.mark.slow
def test_a_worker_killed_on_the_way_costs_nothing(dask, room, monkeypatch):
    address, _, plain = dask
    real = submissions.write_status

    def killing(*arguments):
        plain.send_signal(signal.SIGKILL)
        real(*arguments)

    monkeypatch.setattr(submissions, "write_status", killing)
    pool = Cluster(address)
    assert pool.size == 2 and pool.has_gpu
    statuses = submissions.autograde(room, UNIT, pool=pool)
    assert plain.wait(10) == -signal.SIGKILL
    assert [status.state for status in statuses] == ["graded"] * 7
    found = without_place(verdicts(room))
    live = found["s0"]["checks"][3]
    assert live["verdict"] == "pass" and live["reason"].startswith("measured on the worker with")
    # The same figures give the same verdicts here: where they were judged makes no difference.
    monkeypatch.setattr(Processes, "figures", lambda self: pool.figures())
    submissions.autograde(room, UNIT, force=True)
    assert verdicts(room) == found


def test_no_scheduler_is_one_line(tmp_path, monkeypatch, capsys):
    classroom.create_classroom(tmp_path, "en")
    monkeypatch.setenv("CLASSROOM", str(tmp_path))
    monkeypatch.setattr(cluster, "CONNECT_S", 1)
    assert main(["autograde", "--cluster", "tcp://127.0.0.1:9"]) == 2
    assert "no Dask scheduler answers there" in capsys.readouterr().err
