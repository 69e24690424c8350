"""A student, ready to be asked: the notebook's cells run in a worker, which calls reach.

When the student's code kills or stalls the worker, another is started and the cells run again,
so that one bad call does not decide the checks after it.
"""

import functools
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autograder.sandbox import launcher, wire
from autograder.sandbox.launcher import Limits, SandboxError
from autograder.sandbox.link import Outcome, Worker, read_reply

IMPORTS_COURSE = re.compile(r"^\s*(?:from|import)\s+(?:kernels|lessons)\b", re.MULTILINE)


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

    def __init__(self, limits: Limits | None = None, isolation: str | None = None) -> None:
        self.limits = limits or Limits()
        self.isolation = isolation or find_isolation()
        self.cells: list[Cell] = []
        self.cell_outcomes: dict[str, Outcome] = {}
        self.num_starts = 0
        self._worker: Worker | None = None

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def run_cells(self, cells: Sequence[Cell]) -> dict[str, Outcome]:
        """Run cells in order in a fresh worker, errors tolerated. Raises SandboxError."""
        self._stop()
        self.cells, self.cell_outcomes, self.num_starts = list(cells), {}, 0
        self._ready()
        return self.cell_outcomes

    def call(self, name: str, *args: Any, **kwargs: Any) -> Outcome:
        """Call a function of the student's with plain arguments."""
        request = {"args": wire.to_wire(list(args)), "kwargs": wire.to_wire(kwargs)}
        return self._ask({"op": "call", "name": name, **request})

    def get(self, name: str) -> Outcome:
        """The plain value of a name in the student's notebook."""
        return self._ask({"op": "get", "name": name})

    def _ask(self, request: dict[str, Any]) -> Outcome:
        lost = self._ready()
        if lost is not None or self._worker is None:
            return lost or Outcome("died", detail="no worker")
        return self._keep(self._worker.ask(request, self.limits.call_s))

    def _keep(self, reply: Outcome | dict[str, Any]) -> Outcome:
        if isinstance(reply, dict):
            reply = read_reply(reply)
        if reply.is_lost:
            self._stop()
        return reply

    def _ready(self) -> Outcome | None:
        """Have a worker that has run the cells; None, or why there is none."""
        while self._worker is None:
            if self.num_starts > self.limits.max_restarts:
                return Outcome("died", detail="it stopped the grader's worker again and again")
            self.num_starts += 1
            self._worker = Worker(self.isolation, self.limits, course_libraries(self.cells))
            self._run_all(self._worker)
        return None

    def _run_all(self, worker: Worker) -> None:
        """Run the cells; one that ends the worker is recorded and left out of the next start."""
        for cell in self.cells:
            if self._is_left_out(cell):
                continue
            request = {"op": "cell", "cell": cell.id, "source": cell.source, "pin": [*cell.pin]}
            outcome = self._keep(worker.ask(request, self.limits.cell_s))
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


@functools.cache
def find_isolation() -> str:
    """The strongest way that works here: "root", "user" or "rlimits". Probed once."""
    candidates = ["root", "user"] if os.geteuid() == 0 else ["user"]
    for candidate in candidates if shutil.which("bwrap") else []:
        try:
            Worker(candidate, Limits(start_s=20.0)).close()
            return candidate
        except SandboxError:
            continue
    print(
        "WARNING: NO SANDBOX. Student code runs with resource limits only: it can read your files"
        f" and use the network. Before grading a class: {launcher.INSTALL_HINT} (if it is there"
        " already, this machine forbids it to make namespaces)",
        file=sys.stderr,
    )
    return "rlimits"


def isolation_name(isolation: str) -> str:
    """What is recorded with the grade: "bubblewrap" or "rlimits"."""
    return "rlimits" if isolation == "rlimits" else "bubblewrap"
