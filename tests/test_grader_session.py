"""A student over several workers: what is left out, bounded, pinned and passed over."""

import pytest
from grader_case import ISOLATIONS, LIMITS, started

from autograder.sandbox import session
from autograder.sandbox.launcher import Limits, SandboxError
from autograder.sandbox.session import Cell, Sandbox, find_isolation

both = pytest.mark.parametrize("isolation", ISOLATIONS)


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


def test_each_judgement_has_the_time_and_the_restarts_of_a_whole_notebook():
    source = "import os\ndef f(): return 1\ndef leave(): os._exit(0)"
    with started(source, "rlimits", Limits(max_restarts=1)) as box:
        box.spent_s = box.limits.total_s
        assert box.call("f").kind == "timeout"
        box.judge_again()
        assert box.call("f").kind == "value"
        kinds = [box.call("leave").kind for _ in range(3)]
        box.judge_again()
        assert box.call("f").kind == "value" and set(kinds) == {"died"}


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


@pytest.fixture
def fresh_probe():
    """Nothing is known of this machine yet, nor afterwards."""
    caches = (session._working_sandbox, session._warn_once)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def test_without_bubblewrap_one_loud_warning(fresh_probe, monkeypatch, capsys):
    monkeypatch.setattr(session.shutil, "which", lambda name: None)
    assert [find_isolation(), find_isolation()] == ["rlimits", "rlimits"]
    warning = capsys.readouterr().err
    assert warning.count("NO SANDBOX") == 1 and "apt-get install bubblewrap" in warning


def test_a_bubblewrap_that_does_not_work_counts_as_none(fresh_probe, monkeypatch, capsys):
    monkeypatch.setattr(session.shutil, "which", lambda name: "/bin/false")
    assert find_isolation() == "rlimits"
    assert "NO SANDBOX" in capsys.readouterr().err


class FakeWorkers:
    """Workers of which the first `num_failures` do not start, as on a machine without memory."""

    def __init__(self, num_failures):
        self.num_failures, self.tried = num_failures, []

    def __call__(self, isolation, limits):
        self.tried.append(isolation)
        if len(self.tried) <= self.num_failures:
            raise SandboxError("the worker did not start (timeout)")
        return self

    def close(self):
        pass


@pytest.mark.parametrize(
    ("num_failures", "found", "num_tried"),
    [
        (0, ["user", "user"], 1),
        (1, ["user", "user"], 2),
        (2, ["rlimits", "user", "user"], 3),
        (99, ["rlimits", "rlimits"], 4),
    ],
)
def test_a_probe_that_failed_is_made_again_and_one_that_worked_is_not(
    fresh_probe, monkeypatch, num_failures, found, num_tried
):
    workers = FakeWorkers(num_failures)
    monkeypatch.setattr(session, "Worker", workers)
    monkeypatch.setattr(session.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(session.shutil, "which", lambda name: "/usr/bin/bwrap")
    assert [find_isolation() for _ in found] == found
    assert workers.tried == ["user"] * num_tried
