"""Judging on a Dask cluster: a real scheduler and separate workers, one killed on the way."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from classroom_kit import UNIT, fill, hand_in

from autograder import classroom, cluster, submissions
from autograder.__main__ import main
from autograder.assignment import ROOT
from autograder.cluster import Cluster, ClusterError
from autograder.parallel import Processes

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


@pytest.mark.slow
def test_other_sources_are_refused(dask, monkeypatch):
    monkeypatch.setattr(submissions, "GRADER_SOURCES", ("Makefile",))
    with pytest.raises(ClusterError, match="does not run these sources"):
        Cluster(dask[0])


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
    found = verdicts(room)
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
