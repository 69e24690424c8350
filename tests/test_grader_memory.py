"""The memory of a worker with all its processes is bounded, whatever one of them may take."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from grader_case import ISOLATIONS, LIMITS, grade, run, submission

from autograder.sandbox import launcher, link, memory
from autograder.sandbox.launcher import SandboxError
from autograder.sandbox.link import Worker
from autograder.sandbox.processes import environments
from autograder.sandbox.session import isolation_name
from lessons.lib.checks.outcome import Outcome

both = pytest.mark.parametrize("isolation", ISOLATIONS)
needs_cgroup = pytest.mark.skipif(
    memory.cgroup_home() is None, reason="this user may not make control groups for memory here"
)
bounds = pytest.mark.parametrize("bound", ["watch", pytest.param("cgroup", marks=needs_cgroup)])
# Each process takes far less than one may, and stays; all of them together take 800 MiB.
MANY = """
import os, time
def f():
    for _ in range(8):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            hoard = bytearray(b"x" * (100 << 20))
            time.sleep(60); os._exit(0)
    time.sleep(20)
"""
SMALL = replace(LIMITS, total_memory_bytes=400 << 20, call_s=30.0)


@pytest.fixture
def bounded_by(monkeypatch):
    """Leave only one of the two bounds in place."""

    def choose(bound):
        if bound == "watch":
            monkeypatch.setattr(launcher, "make_cgroup", lambda *_: None)
        else:
            monkeypatch.setattr(memory, "takes_more", lambda *_: False)

    return choose


@both
@bounds
def test_many_processes_each_under_its_limit_are_too_much_together(isolation, bound, bounded_by):
    bounded_by(bound)
    outcome = run(MANY, isolation, SMALL)
    assert (outcome.kind, outcome.detail) == ("memory", "took more than 0.391 GiB of memory")


@bounds
def test_what_forks_share_counts_once(bound, bounded_by):
    bounded_by(bound)
    shared = """
import os, time
def f():
    hoard = bytearray(b"x" * (100 << 20))
    children = []
    for _ in range(8):
        children.append(os.fork())
        if not children[-1]:
            time.sleep(1.0); os._exit(0)
    for child in children: os.waitpid(child, 0)
    return 1
"""
    assert run(shared, "rlimits", SMALL).value == 1


@needs_cgroup
def test_the_group_counts_what_no_process_has_mapped(bounded_by):
    """A file in memory, written and never mapped, is in no process's figures."""
    bounded_by("cgroup")
    hidden = """
import os
def f():
    kept = []
    while len(kept) < 16:
        kept.append(os.memfd_create("x"))
        os.write(kept[-1], b"x" * (50 << 20))
    return len(kept)
"""
    assert run(hidden, "rlimits", SMALL).kind == "memory"
    assert run(hidden, "rlimits", replace(SMALL, total_memory_bytes=2 << 30)).value == 16


@bounds
def test_nothing_is_left_of_a_worker_that_took_too_much(bound, bounded_by, tmp_path, monkeypatch):
    bounded_by(bound)
    monkeypatch.setattr(launcher.tempfile, "tempdir", str(tmp_path))
    mark = []
    real = launcher._environment
    monkeypatch.setattr(
        launcher, "_environment", lambda home, name: mark.append(name) or real(home, name)
    )
    assert run(MANY, "rlimits", SMALL).kind == "memory"
    assert list(tmp_path.iterdir()) == [] and groups() == []
    assert not [pid for pid, text in environments() if mark[0].encode() in text]


def groups():
    """Control groups of this process's workers."""
    home = memory.cgroup_home()
    return list(home[0].glob(f"specdec-{os.getpid()}-*")) if home else []


def test_the_verdict_says_what_happened_and_the_other_checks_go_on(bounded_by):
    bounded_by("watch")
    cost = MANY.replace("def f()", "def expected_tokens_per_round(conditional_acceptance)")
    judgement = grade(submission(cost=cost), "rlimits", limits=SMALL)
    assert judgement["main"].verdict == judgement["boundary"].verdict == "invalid"
    assert judgement["main"].reason == (
        "expected_tokens_per_round took more than 0.391 GiB of memory, all its processes together"
    )
    assert judgement["source_map"].verdict == "pass"


def test_a_machine_without_memory_is_nobodys_zero(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: memory.RESERVE_BYTES - 1)
    slow = "import time\ndef expected_tokens_per_round(x): time.sleep(30)"
    judgement = grade(submission(cost=slow), "rlimits", limits=replace(LIMITS, call_s=30.0))
    for name in ("main", "boundary"):  # those that were waiting when the memory was gone
        assert judgement[name].verdict == "not_measured"
        assert "this machine ran out of memory" in judgement[name].reason
    verdicts = {judgement[name].verdict for name in ("source_map", "live")}
    assert "invalid" not in verdicts  # whoever the watch met, it is not held against the student


# The control groups


@needs_cgroup
def test_a_group_is_made_with_its_limit_and_removed_with_its_processes():
    group = memory.make_cgroup("test", 123 << 20)
    limit = group.folder / memory.FILES[group.version][0]
    assert int(limit.read_text()) == 123 << 20 and group in [
        memory.Cgroup(g, group.version) for g in groups()
    ]
    sleeper = subprocess.Popen(group.entered([sys.executable, "-c", "import time; time.sleep(60)"]))
    while not group.pids():
        time.sleep(0.01)
    assert group.pids() == [sleeper.pid] and not group.has_overflowed()
    group.remove()
    assert sleeper.wait(10) < 0 and groups() == []
    group.remove()


def test_version_two_hands_on_to_the_nearest_group_that_may_be_written(tmp_path, monkeypatch):
    """As systemd lays it out: the service hands memory on, the process sits in a leaf below."""
    service = tmp_path / "user.slice/user@1000.service"
    leaf = service / "app.slice/term.scope"
    leaf.mkdir(parents=True)
    for folder, hands_on in (
        (tmp_path, "cpu memory"),
        (tmp_path / "user.slice", "memory"),
        (service, "memory pids"),
        (service / "app.slice", "pids"),
        (leaf, ""),
    ):
        (folder / "cgroup.subtree_control").write_text(hands_on)
        (folder / "cgroup.procs").write_text("")
    monkeypatch.setattr(memory, "MOUNT", tmp_path)
    assert memory._delegated(leaf) == service
    (service / "cgroup.subtree_control").write_text("")
    assert memory._delegated(leaf) == tmp_path / "user.slice"
    monkeypatch.setattr(memory.os, "access", lambda *_: False)
    assert memory._delegated(leaf) is None


def test_a_group_that_cannot_be_made_leaves_the_watch_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "cgroup_home", lambda: (tmp_path / "gone", 2))
    assert memory.make_cgroup("test", 1) is None
    monkeypatch.setattr(memory, "cgroup_home", lambda: None)
    assert memory.make_cgroup("test", 1) is None


def test_groups_of_killed_graders_are_removed(tmp_path):
    ours, theirs = tmp_path / f"specdec-{os.getpid()}-a", tmp_path / "specdec-99999999-b"
    ours.mkdir(), theirs.mkdir()
    memory._remove_abandoned(tmp_path)
    assert ours.exists() and not theirs.exists()


@pytest.mark.parametrize("home", [None, ("/sys/fs/cgroup/x", 2)])
def test_the_level_is_recorded(home, monkeypatch):
    monkeypatch.setattr("autograder.sandbox.session.cgroup_home", lambda: home)
    end = "+cgroup" if home else ""
    assert isolation_name("root") == isolation_name("user") == f"bubblewrap{end}"
    assert isolation_name("rlimits") == f"rlimits{end}"


# Time that is not the student's


def test_time_in_which_the_grader_was_stopped_is_not_the_students(monkeypatch):
    """The wait of half a second takes a minute, as when a machine is suspended."""
    worker = Worker("rlimits", LIMITS)
    try:
        real, lost = worker._chunk, [60.0]

        def suspended(timeout_s):
            clock.offset += lost.pop() if lost else 0.0
            return real(timeout_s)

        clock = Clock()
        monkeypatch.setattr(link, "time", clock)
        monkeypatch.setattr(worker, "_chunk", suspended)
        reply = worker.ask({"op": "cell", "cell": "c", "source": "x = 1", "pin": []}, 5.0)
        assert not isinstance(reply, Outcome) and 59 < worker.held_up_s <= 60.5
    finally:
        worker.close()


class Clock:
    """A clock that can be put forward."""

    offset = 0.0

    def monotonic(self):
        return time.monotonic() + self.offset


def test_a_machine_without_memory_leaves_no_worker_behind(monkeypatch):
    worker = Worker("rlimits", LIMITS)
    monkeypatch.setattr(memory, "available_bytes", lambda: 0)
    source = "import time; time.sleep(30)"
    with pytest.raises(SandboxError, match="ran out of memory"):
        worker.ask({"op": "cell", "cell": "c", "source": source, "pin": []}, 20.0)
    assert worker.process.popen.returncode is not None
