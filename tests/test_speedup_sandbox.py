"""The race on real workers: they stop while the other is timed, and lie with no success."""

import os
import time
from pathlib import Path

import pytest
from grader_case import ISOLATIONS, isolation_of

from autograder import machine
from autograder.sandbox.launcher import Extras, Limits, descendants
from autograder.sandbox.session import Cell, Sandbox
from autograder.speed_decision import Pair, Timing, clocks_disagree

COUNTER = """
import os, threading, time
count = 0
def work():
    global count
    while True:
        count += 1
        time.sleep(0.001)
threading.Thread(target=work, daemon=True).start()
if os.fork() == 0:
    os.setsid()
    while True:
        time.sleep(0.01)
def f():
    return count
"""
LIES = """
import sys
def f():
    frame = sys._getframe()
    while frame is not None:
        if "now" in frame.f_globals:
            frame.f_globals["now"] = lambda: 0.0
        frame = frame.f_back
    return sum(range(10 ** 6))
"""


def started(source, isolation, extras=None):
    box = Sandbox(Limits(cell_s=30.0, call_s=20.0), isolation_of(isolation), extras or Extras())
    box.run_cells([Cell("cell", "exercise", source)])
    return box


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_paused_worker_and_all_that_it_started_compute_nothing(isolation):
    with started(COUNTER, isolation) as box:
        root = box._worker.process.popen.pid
        assert len(descendants(root)) >= 2
        box.pause()
        family = descendants(root)
        assert {state_of(pid) for pid in family} == {"T"}
        used = [Path(f"/proc/{pid}/stat").read_text().split()[13:15] for pid in sorted(family)]
        time.sleep(0.2)
        again = [Path(f"/proc/{pid}/stat").read_text().split()[13:15] for pid in sorted(family)]
        assert used == again
        box.resume()
        first = box.call("f").value
        deadline = time.monotonic() + 20
        while box.call("f").value == first and time.monotonic() < deadline:
            time.sleep(0.01)
        assert box.call("f").value > first


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_paused_worker_can_still_be_ended(isolation):
    with started(COUNTER, isolation) as box:
        box.pause()
        family = descendants(box._worker.process.popen.pid)
    deadline = time.monotonic() + 20
    while left := [pid for pid in family if is_alive(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def is_alive(pid):
    try:
        return state_of(pid) not in "ZX"
    except OSError:
        return False


def test_the_workers_clock_lies_inside_the_graders():
    with started("def f():\n    return sum(range(10 ** 6))", "rlimits") as box:
        begun = time.perf_counter()
        outcome = box.call("f")
        host_ms = (time.perf_counter() - begun) * 1e3
    assert 0.0 < outcome.worker_ms <= host_ms


def test_a_worker_whose_clock_was_stopped_is_found_out():
    with started(LIES, "rlimits") as box:
        outcome = box.call("f")
    assert outcome.is_value and not outcome.worker_ms > 0.0
    pair = Pair(Timing(1000.0, 999.0), Timing(500.0, outcome.worker_ms))
    assert clocks_disagree([pair] * 6)


@pytest.mark.sandbox
def test_extras_show_what_is_ours_and_nothing_more(tmp_path):
    shown, hidden = tmp_path / "shown", tmp_path / "hidden"
    for folder in (shown, hidden):
        folder.mkdir()
        (folder / "file").write_text("words")
    source = (
        "import os\n"
        "def f(a, b):\n"
        "    return open(a + '/file').read(), os.path.exists(b), os.environ.get('NUM'),"
        " os.access(a, os.W_OK)"
    )
    extras = Extras(read_only=(shown,), environment={"NUM": "3"})
    with started(source, "bubblewrap", extras) as box:
        assert box.call("f", str(shown), str(hidden)).value == ("words", False, "3", False)


def test_turns_are_taken(tmp_path):
    file = tmp_path / "deep" / "lock"
    with machine.turn(file):
        child = os.fork()
        if child == 0:
            with machine.turn(file):
                (tmp_path / "inside").write_text("x")
            os._exit(0)
        time.sleep(0.1)
        assert not (tmp_path / "inside").exists()
    os.waitpid(child, 0)
    assert (tmp_path / "inside").exists()


def test_the_machine_tells_its_state_and_its_caches_are_flushed(monkeypatch):
    monkeypatch.setattr(machine, "cpu_cache_bytes", lambda: 1 << 20)
    machine._buffers.cache_clear()
    before = int(machine._buffers()[0][0])
    machine.flush_caches()
    assert int(machine._buffers()[0][0]) == before + 1
    state = machine.state()
    machine._buffers.cache_clear()
    assert state["flushed_mib"][0] == 2 and len(state["load"]) == 3 and state["cpus"] >= 1
    assert machine.cpu_cache_bytes() >= 1 << 18


def test_the_card_is_described_where_there_is_one(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'A Card, 570.1, 1980 MHz, 2619 MHz, 40, 90.1 W, 3 %'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert machine._gpu()["clocks.sm"] == "1980 MHz"
    program.write_text("#!/bin/sh\nexit 9\n")
    assert machine._gpu() == {}


def test_a_roofline_is_below_what_machines_can_do():
    assert machine.roofline_ms(10e12) == pytest.approx(1000.0)
    assert machine.roofline_ms(0.0, 5e12) == pytest.approx(1.0)
