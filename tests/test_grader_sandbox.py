"""The worker: every end it can come to, and what it cannot reach."""

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from grader_case import ISOLATIONS, LIMITS, isolation_of, run, started

from autograder.sandbox import launcher
from autograder.sandbox.launcher import Extras, Limits
from autograder.sandbox.processes import environments
from autograder.sandbox.session import Cell, Sandbox, isolation_name

REPO = Path(__file__).parents[1]
both = pytest.mark.parametrize("isolation", ISOLATIONS)


def processes_of(mark):
    """Processes that carry a worker's mark."""
    return [pid for pid, text in environments() if mark.encode() in text]


@both
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("while True: pass", "timeout"),
        ("import time; time.sleep(1000)", "timeout"),
        ("import os; os._exit(0)", "died"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "died"),
        ("import os; os.closerange(0, 256); return 1", "died"),
        ("import sys; sys.exit(0)", "error"),
        ("return input()", "error"),
        ("return f()", "error"),
        ("x = bytearray(10**12)", "error"),
        ("raise KeyboardInterrupt", "error"),
    ],
)
def test_every_end_of_a_call_is_an_outcome(isolation, body, kind):
    assert run(f"def f():\n    {body}", isolation, Limits(call_s=1.5)).kind == kind


@both
def test_growing_without_end_is_an_outcome(isolation):
    source = "def f():\n    x = []\n    while True: x.append(bytearray(10**7))"
    limits = Limits(memory_bytes=300 << 20, call_s=20.0)
    assert run(source, isolation, limits).kind in ("error", "died")


def test_an_exception_that_cannot_be_shown_is_an_outcome():
    source = """
class Odd(Exception):
    def __str__(self): raise SystemExit
    __repr__ = __str__
def f(): raise Odd
"""
    outcome = run(source, "rlimits")
    assert (outcome.kind, outcome.error_type) == ("error", "Odd")


@both
def test_floods_do_not_reach_the_grader(isolation):
    source = """
import os, sys
for _ in range(2000): print("x" * 10_000)
os.write(1, b"y" * 100_000)
def f():
    for fd in range(3, 64):
        try: os.write(fd, b"z" * (3 << 20))
        except OSError: pass
    return 1
"""
    with started(source, isolation) as box:
        assert box.cell_outcomes["cell"].detail == "x" * 10_000 + "\n" + "x" * 10_000 + "\n" + (
            ("x" * 10_000 + "\n") * 4 + "x" * (65536 - 6 * 10_001)
        )
        assert box.call("f").kind in ("garbled", "timeout", "died")


def test_an_answer_nobody_asked_for_is_garbled():
    source = """
import os
def f():
    for fd in range(3, 64):
        try: os.write(fd, b'{"id": 1, "value": 2.64, "args": []}\\n')
        except OSError: pass
    return 1
"""
    assert run(source, "rlimits").kind == "garbled"


@both
def test_a_fork_does_not_answer_twice(isolation):
    source = "import os\ndef f():\n    os.fork()\n    return 1\ndef g(): return 2"
    with started(source, isolation) as box:
        assert [box.call("f").value for _ in range(3)] == [1, 1, 1]
        assert box.call("g").value == 2


@both
def test_background_processes_end_with_the_worker(isolation):
    source = """
import subprocess, sys
def f():
    for session in (False, True):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         start_new_session=session)
    return 1
"""
    with started(source, isolation) as box:
        assert box.call("f").value == 1
        process = box._worker.process
        assert len(processes_of(process.mark)) >= 3
    assert not processes_of(process.mark)
    assert not process.folder.exists()


@pytest.mark.sandbox
def test_a_fork_bomb_is_bounded():
    source = """
import os, time
def f():
    n = 0
    try:
        while n < 500:
            if os.fork() == 0:
                time.sleep(60); os._exit(0)
            n += 1
    except OSError:
        pass
    return n
"""
    with started(source, "bubblewrap", Limits(num_processes=32, call_s=20.0)) as box:
        assert box.call("f").value < 32


@pytest.mark.sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="the second way differs from the first for root only")
def test_both_ways_of_bubblewrap_work_for_root():
    source = "import os\ndef f(): return os.getuid(), os.listdir('/tmp')"
    # Folders that lead to this Python, where it lies below /tmp, are there by name.
    ours = {part.parts[2] for part in map(Path, (sys.prefix, sys.base_prefix)) if below_tmp(part)}
    for way in ("root", "user"):
        with Sandbox(LIMITS, way) as box:
            box.run_cells([Cell("c", "exercise", source)])
            uid, seen = box.call("f").value
            assert uid == 65534 and set(seen) <= ours
            assert isolation_name(way).startswith("bubblewrap")


def below_tmp(path):
    return path.is_relative_to("/tmp")


@both
def test_file_size_is_limited(isolation):
    source = """
import tempfile
def f():
    with tempfile.TemporaryFile() as file:
        for _ in range(100): file.write(b"x" * 1_000_000)
"""
    outcome = run(source, isolation, replace(LIMITS, file_bytes=1 << 20))
    assert outcome.kind == "error" and outcome.error_type == "OSError"


# What the worker sees


@pytest.mark.sandbox
def test_nothing_of_the_repository_is_visible():
    source = """
import os
def f(paths): return [os.path.exists(path) for path in paths]
def files():
    return sorted(os.path.join(d, n) for d, _, names in os.walk("/worker") for n in names)
def write(path):
    with open(path, "w") as file: file.write("x")
"""
    hidden = [
        "solutions",
        "autograder",
        "lessons",
        "course",
        "kernels",
        "classroom",
        ".git",
        "tests",
    ]
    paths = [str(REPO / name) for name in hidden] + [
        "/etc/shadow",
        "/etc/passwd",
        "/home",
        str(Path.home() / ".ssh"),
    ]
    with started(source, "bubblewrap") as box:
        assert box.call("f", paths).value == [False] * len(paths)
        assert box.call("files").value == ["/worker/wire.py", "/worker/worker.py"]
        for place in ("/x", "/worker/worker.py", "/usr/x", "/dev/shm/x", "/dev/x", f"{REPO}/x"):
            assert box.call("write", place).kind == "error"
        assert box.call("write", "/tmp/x").is_value


@pytest.mark.sandbox
def test_the_engine_is_visible_to_a_setup_cell_that_imports_it_and_nothing_else_is():
    setup = Cell("setup", "setup", "import lessons.lib\nimport kernels")
    source = """
import os
def f(): return sorted(os.listdir("/course")), sorted(os.listdir("/course/lessons"))
def write():
    with open("/course/lessons/lib/x", "w") as file: file.write("x")
"""
    with Sandbox(replace(LIMITS, cell_s=60.0), isolation_of("bubblewrap")) as box:
        outcomes = box.run_cells([setup, Cell("c", "exercise", source)])
        assert outcomes["setup"].is_value, outcomes["setup"]
        assert box.call("f").value == (["kernels", "lessons"], ["__init__.py", "lib"])
        assert box.call("write").kind == "error"


@pytest.mark.sandbox
def test_there_is_no_network():
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = f"""
import socket
import sys
def f(): socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), timeout=2)
"""
        outcome = run(source, "bubblewrap")
        assert outcome.kind == "error" and "OSError" in outcome.bases


@both
def test_the_graders_environment_is_not_handed_on(isolation, monkeypatch):
    monkeypatch.setenv("GRADER_SEED", "424242")
    source = "import os, sys\ndef f(): return dict(os.environ), sys.argv"
    environment, argv = run(source, isolation).value
    assert "GRADER_SEED" not in environment and "424242" not in repr((environment, argv))


@pytest.mark.sandbox
def test_the_graders_own_process_is_not_visible(monkeypatch):
    source = """
import os
def f(): return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
"""
    assert len(run(source, "bubblewrap").value) <= 3


@both
@pytest.mark.parametrize(
    "grab", ["bytearray(3 << 29)", "__import__('mmap').mmap(-1, 20 << 30)", "[0] * (1 << 28)"]
)
def test_memory_is_bounded_at_once(isolation, grab):
    outcome = run(f"def f(): return bool({grab})", isolation, replace(LIMITS, memory_bytes=1 << 30))
    assert outcome.kind == "error" and outcome.error_type in ("MemoryError", "OSError")


def test_a_python_reached_through_links_is_shown_under_each_name(tmp_path, monkeypatch):
    """Version managers link one folder to another; a home folder is never shown on the way."""
    alias = tmp_path / "versions" / "3.x"
    alias.parent.mkdir()
    alias.symlink_to(sys.base_prefix)
    (tmp_path / "bin").mkdir()
    name = Path(sys.executable).resolve().name
    (tmp_path / "bin" / "python").symlink_to(alias / "bin" / name)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    homes = launcher._python_homes()
    assert alias in homes and tmp_path not in homes


def test_a_repository_inside_the_python_folder_is_covered(monkeypatch):
    inside = Path(sys.base_prefix) / "course"
    monkeypatch.setattr(launcher, "REPO", inside)
    command = launcher._system_binds()
    assert command[command.index("--tmpfs") + 1] == str(inside)
    assert command.index("--tmpfs") > command.index(str(Path(sys.base_prefix)))


def test_what_lies_below_tmp_stays_visible():
    """A repository or a Python there is bound after the private /tmp, which would cover it up."""
    command = launcher._bubblewrap("user", Limits(), (), Extras(), {})
    assert command.index("/tmp") < command.index("--ro-bind")
