"""A student, ready to be asked: the notebook's cells run in a worker, which calls reach.

When the student's code kills or stalls the worker, another is started and the cells run again,
so that one bad call does not decide the checks after it.
"""

import contextlib
import functools
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autograder.sandbox import launcher, wire
from autograder.sandbox.launcher import NO_EXTRAS, Extras, Limits, SandboxError
from autograder.sandbox.link import Worker, read_reply
from autograder.sandbox.memory import cgroup_home
from lessons.lib.checks.outcome import Outcome

IMPORTS_COURSE = re.compile(r"^\s*(?:from|import)\s+(?:kernels|lessons)\b", re.MULTILINE)
TIME_USED_UP = Outcome("timeout", detail="used up the time for the whole notebook: too slow")


@dataclass(frozen=True)
class Cell:
    """A code cell to run. `pin` are names that no later cell may rebind."""

    id: str
    role: Literal["setup", "exercise", "extra"]
    source: str
    pin: tuple[str, ...] = ()


class Sandbox:
    """A student's notebook, ready to be asked. Use as a context manager.

    `cell_outcomes` maps cell ids to what happened when they ran. A cell that kills or stalls the
    worker is left out of the next start, so that it costs no more than what it defines.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        isolation: str | None = None,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self.limits = limits or Limits()
        self.extras = extras
        self.isolation = isolation or find_isolation()
        self.cells: list[Cell] = []
        self.cell_outcomes: dict[str, Outcome] = {}
        self.num_starts = 0
        self.spent_s = 0.0
        self._worker: Worker | None = None

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def run_cells(self, cells: Sequence[Cell]) -> dict[str, Outcome]:
        """Run cells in order in a fresh worker, errors tolerated. Raises SandboxError."""
        self._stop()
        self.cells, self.cell_outcomes = list(cells), {}
        self.num_starts, self.spent_s = 0, 0.0
        self._ready()
        return self.cell_outcomes

    def judge_again(self) -> None:
        """The same notebook is to be judged once more: its time and its restarts begin anew."""
        self.spent_s, self.num_starts = 0.0, int(self._worker is not None)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Outcome:
        """Call a function of the student's with plain arguments."""
        request = {"args": wire.to_wire(list(args)), "kwargs": wire.to_wire(kwargs)}
        return self._ask({"op": "call", "name": name, **request})

    def get(self, name: str) -> Outcome:
        """The plain value of a name in the student's notebook."""
        return self._ask({"op": "get", "name": name})

    def pause(self) -> None:
        """Stop everything of this worker, so that another may be timed in peace."""
        if self._worker is not None:
            self._worker.process.pause()

    def resume(self) -> None:
        """Let it go on."""
        if self._worker is not None:
            self._worker.process.resume()

    def _ask(self, request: dict[str, Any]) -> Outcome:
        worker = self._ready()
        if isinstance(worker, Outcome):
            return worker
        return self._exchange(worker, request, self.limits.call_s)

    def _exchange(self, worker: Worker, request: dict[str, Any], timeout_s: float) -> Outcome:
        """One request, on the notebook's account of time."""
        started = time.monotonic() - worker.held_up_s
        left_s = max(self.limits.total_s - self.spent_s, 0.0)
        try:
            reply = worker.ask(request, min(timeout_s, left_s))
        except SandboxError:
            self._stop()
            raise
        self.spent_s += time.monotonic() - worker.held_up_s - started
        outcome = read_reply(reply) if isinstance(reply, dict) else reply
        if outcome.is_lost:
            self._stop()
        return TIME_USED_UP if outcome.kind == "timeout" and left_s < timeout_s else outcome

    def _ready(self) -> Worker | Outcome:
        """A worker that has run the cells, or why there is none."""
        while self._worker is None:
            if self.spent_s >= self.limits.total_s:
                return TIME_USED_UP
            if self.num_starts > self.limits.max_restarts:
                return Outcome("died", detail="stopped the grader's worker again and again")
            self.num_starts += 1
            self._worker = Worker(
                self.isolation, self.limits, course_libraries(self.cells), self.extras
            )
            self._run_all(self._worker)
        return self._worker

    def _run_all(self, worker: Worker) -> None:
        """Run the cells; one that ends the worker is recorded and left out of the next start."""
        for cell in self.cells:
            if self._is_left_out(cell):
                continue
            request = {"op": "cell", "cell": cell.id, "source": cell.source, "pin": [*cell.pin]}
            outcome = self._exchange(worker, request, self.limits.cell_s)
            self.cell_outcomes[cell.id] = outcome
            if self._worker is None:
                return

    def _is_left_out(self, cell: Cell) -> bool:
        """Cells that ended a worker before; all extra ones once half the starts are used."""
        past = self.cell_outcomes.get(cell.id)
        is_tired = self.num_starts > self.limits.max_restarts // 2
        return (past is not None and past.is_lost) or (is_tired and cell.role == "extra")

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def course_libraries(cells: Sequence[Cell]) -> list[Path]:
    """The folders to show the worker: the engine's, if a setup cell imports it; else none."""
    if not any(IMPORTS_COURSE.search(cell.source) for cell in cells if cell.role == "setup"):
        return []
    lessons = launcher.REPO / "lessons"
    return [launcher.REPO / "kernels", lessons / "__init__.py", lessons / "lib"]


def find_isolation() -> str:
    """The strongest way that works here: "root", "user" or "rlimits".

    What works is remembered. That nothing works is asked again each time, so that a moment in which
    the machine was too busy does not take the sandbox from everybody who is graded after it.
    """
    try:
        return _working_sandbox()
    except SandboxError:
        _warn_once()
        return "rlimits"


@functools.cache
def _working_sandbox() -> str:
    """The bubblewrap way in which a worker starts; each is tried twice. Raises SandboxError."""
    candidates = ["root", "user"] if os.geteuid() == 0 else ["user"]
    for candidate in candidates * 2 if shutil.which("bwrap") else []:
        with contextlib.suppress(SandboxError):
            Worker(candidate, Limits(start_s=20.0)).close()
            return candidate
    raise SandboxError("no bubblewrap that works")


@functools.cache
def _warn_once() -> None:
    print(
        "WARNING: NO SANDBOX. Student code runs with resource limits only: it can read your files"
        f" and use the network. Before grading a class: {launcher.INSTALL_HINT} (if it is there"
        " already, this machine forbids it to make namespaces)",
        file=sys.stderr,
    )


def isolation_name(isolation: str) -> str:
    """What is recorded with the grade: "bubblewrap" or "rlimits", and "+cgroup" where the kernel
    bounds the memory of all of a worker's processes; elsewhere the grader alone watches it."""
    name = "rlimits" if isolation == "rlimits" else "bubblewrap"
    return f"{name}+cgroup" if cgroup_home() else name
