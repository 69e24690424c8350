"""The worker: what it cannot reach, what it cannot do to the grader, what crosses its border."""

import math
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from grader_case import ISOLATIONS, LIMITS, isolation_of

from autograder.sandbox import launcher, session, wire
from autograder.sandbox.launcher import Limits
from autograder.sandbox.link import Outcome, read_reply
from autograder.sandbox.session import Cell, Sandbox, find_isolation, isolation_name

REPO = Path(__file__).parents[1]
both = pytest.mark.parametrize("isolation", ISOLATIONS)


def started(source, isolation, limits=LIMITS, role="exercise"):
    box = Sandbox(limits, isolation_of(isolation))
    box.run_cells([Cell("cell", role, source)])
    return box


def run(source, isolation, limits=LIMITS, name="f"):
    """The outcome of calling f(), after a cell with this source."""
    with started(source, isolation, limits) as box:
        return box.call(name)


def processes_of(mark):
    """Processes that carry a worker's mark."""
    return [pid for pid, text in launcher._environments() if mark.encode() in text]


# What crosses the border


@both
def test_plain_values_cross_unchanged(isolation):
    values = [None, True, 3, -0.1, "text", [1, [2.5]], (1, ("a",)), {"k": [1], 2: None}, 10**40]
    with started("def same(*values): return values", isolation) as box:
        outcome = box.call("same", *values)
        assert outcome.value == tuple(values)
        assert [type(v) for v in outcome.value] == [type(v) for v in values]
        odd = box.call("same", math.nan, math.inf, -math.inf).value
    assert math.isnan(odd[0]) and odd[1:] == (math.inf, -math.inf)


@both
def test_numpy_values_become_plain(isolation):
    source = """
import numpy as np
def f(): return np.float32(2.5), np.int64(3), np.bool_(True), np.arange(3), np.str_("x")
"""
    assert run(source, isolation).value == (2.5, 3, True, [0, 1, 2], "x")


def test_torch_scalars_become_plain():
    source = "import torch\ndef f(): return torch.tensor(2.5), torch.ones(2, dtype=torch.int64)"
    assert run(source, "rlimits", Limits(cell_s=120.0)).value == (2.5, [1, 1])


def test_a_value_that_lies_is_judged_by_what_it_holds():
    source = """
class Liar(float):
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda self, other: True
    __hash__ = float.__hash__
    def __float__(self): return 2.64
    def __repr__(self): return "2.64"
class Fake:
    @property
    def __class__(self): return float
def f(): return Liar(7.0)
def g(): return Fake()
"""
    assert run(source, "rlimits").value == 7.0
    assert run(source, "rlimits", name="g") == Outcome("refused", detail="Fake")


@pytest.mark.parametrize(
    "expression",
    [
        "object()",
        "open",
        "lambda: 1",
        "b'bytes'",
        "{1, 2}",
        "2 + 3j",
        "f",
        "10**2000",
        "[0] * 10**7",
    ],
)
def test_what_is_not_plain_or_too_large_is_refused(expression):
    assert run(f"def f(): return {expression}", "rlimits").kind in ("refused", "error")


def test_endless_nesting_is_refused():
    assert run("def f():\n    x = []\n    x.append(x)\n    return x", "rlimits").kind == "refused"


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"value": 1},
        {"value": {"!": "pickle", "v": "x"}, "args": []},
        {"value": {"!": "float", "v": "1"}, "args": []},
        {"value": {"!": "dict", "v": [[[1], 2]]}, "args": []},
        {"value": {"!": "dict", "v": [1]}, "args": []},
        {"value": 1, "args": {"!": "tuple", "v": []}},
        {"error": {"type": "X"}},
        {"value": 1 << 5000, "args": []},
    ],
)
def test_a_forged_reply_is_garbled(reply):
    assert read_reply(reply).kind == "garbled"


def test_a_deep_reply_is_garbled():
    value = 1
    for _ in range(60):
        value = [value]
    assert read_reply({"value": value, "args": []}).kind == "garbled"


@pytest.mark.parametrize(
    "line", [b"[1]", b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000, b"1" * 9999]
)
def test_a_line_that_is_no_message_is_an_error(line):
    with pytest.raises(wire.WireError):
        wire.loads(line)


# What happens to the worker


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
    for way in ("root", "user"):
        with Sandbox(LIMITS, way) as box:
            box.run_cells([Cell("c", "exercise", source)])
            assert box.call("f").value == (65534, [])
            assert isolation_name(way) == "bubblewrap"


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
        "/root/.ssh",
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


# A student, over several workers


@both
def test_after_a_lost_worker_the_next_call_works(isolation):
    source = "def f(): return 1\ndef hang():\n    while True: pass"
    with started(source, isolation, Limits(call_s=1.0)) as box:
        assert box.call("hang").kind == "timeout"
        assert box.call("f").value == 1


def test_a_cell_that_ends_the_worker_is_left_out_and_the_others_count():
    cells = [
        Cell("before", "extra", "helper = 2"),
        Cell("bad", "extra", "import os; os._exit(3)"),
        Cell("hang", "extra", "while True: pass"),
        Cell("cell", "exercise", "def f(): return helper"),
    ]
    with Sandbox(Limits(cell_s=1.0), "rlimits") as box:
        outcomes = box.run_cells(cells)
        assert box.call("f").value == 2
    assert [outcomes[c.id].kind for c in cells] == ["value", "died", "timeout", "value"]
    assert "status 3" in outcomes["bad"].detail


def test_one_bad_exercise_cell_leaves_the_other_alone():
    cells = [
        Cell("hang", "exercise", "while True: pass"),
        Cell("cell", "exercise", "def f(): return 1"),
    ]
    with Sandbox(Limits(cell_s=1.0), "rlimits") as box:
        box.run_cells(cells)
        assert box.call("f").value == 1


def test_starts_are_bounded():
    source = "import os\ndef f(): os._exit(0)"
    with started(source, "rlimits", Limits(max_restarts=2)) as box:
        outcomes = [box.call("f") for _ in range(6)]
        assert {outcome.kind for outcome in outcomes} == {"died"}
        assert box.num_starts == 3


def test_the_time_of_a_whole_notebook_is_bounded():
    source = "import time\ndef f(): time.sleep(0.4)\ndef g(): return 1"
    with started(source, "rlimits", Limits(total_s=1.5)) as box:
        kinds = [box.call("f").kind for _ in range(6)]
        assert kinds[0] == "value" and kinds[-1] == "timeout"
        assert box.call("g").detail == "used up the time for the whole notebook: too slow"


def test_later_cells_cannot_rebind_what_an_exercise_defines():
    cells = [
        Cell("cell", "exercise", "def f(): return g()\ndef g(): return 1", pin=("f", "g")),
        Cell("scratch", "extra", "def g(): return 99\nf = None"),
    ]
    with Sandbox(LIMITS, "rlimits") as box:
        box.run_cells(cells)
        assert box.call("f").value == 1


@pytest.mark.parametrize(
    "source",
    [
        "%matplotlib inline\nx = 1",
        "%%time\nx = 1",
        "!pip list\nx = 1",
        "x = 1\nx?",
        "if True:\n    %timeit 1\n    x = 1",
        "display(3)\nx = 1",
        "x = '''\n%not a magic\n''' and 1",
    ],
)
def test_notebook_only_lines_are_passed_over(source):
    with started(source, "rlimits") as box:
        assert box.cell_outcomes["cell"].kind == "value"
        assert box.get("x").value == 1


def test_a_cell_in_another_language_is_passed_over():
    with started("%%bash\nrm -rf everything", "rlimits") as box:
        assert box.cell_outcomes["cell"].kind == "value"


def test_an_error_is_told_with_its_line():
    with started("x = 1\n\nf = 1 / 0", "rlimits") as box:
        outcome = box.cell_outcomes["cell"]
    assert (outcome.error_type, outcome.line) == ("ZeroDivisionError", 3)


# Where there is no bubblewrap


def test_without_bubblewrap_one_loud_warning(monkeypatch, capsys):
    monkeypatch.setattr(session.shutil, "which", lambda name: None)
    find_isolation.cache_clear()
    try:
        assert [find_isolation(), find_isolation()] == ["rlimits", "rlimits"]
        warning = capsys.readouterr().err
        assert warning.count("NO SANDBOX") == 1 and "apt-get install bubblewrap" in warning
    finally:
        monkeypatch.undo()
        find_isolation.cache_clear()


def test_a_bubblewrap_that_does_not_work_counts_as_none(monkeypatch, capsys):
    monkeypatch.setattr(session.shutil, "which", lambda name: "/bin/false")
    find_isolation.cache_clear()
    try:
        assert find_isolation() == "rlimits"
        assert "NO SANDBOX" in capsys.readouterr().err
    finally:
        monkeypatch.undo()
        find_isolation.cache_clear()


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
