"""A classroom under attack, and everything in it and around it that an attack must leave alone."""

import contextlib
import functools
import json
import os
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat

from autograder import assignment, parallel, submissions
from autograder.attacks.corpus import PLAIN, UNIT, Attack, apply_to_folder, apply_to_notebook
from autograder.attacks.traces import CANARY, PORT, stray_files, stray_processes
from autograder.checks import figures
from autograder.checks.figures import Figures
from autograder.classroom import Classroom, create_classroom, release
from autograder.judge import judge
from autograder.sandbox.launcher import REPO, Limits
from autograder.status import Status

KEPT_OPEN = ("gradebook.db", ".graded/lock")  # compared by rows; held while grading
VICTIM = "aaa-victim"
MAX_MARKED_BYTES = 64 << 20
# Small where an attack takes what it can, short where it makes the grader wait; enough for a right
# answer on a busy machine.
LIMITS = Limits(total_memory_bytes=3 << 29, cell_s=12.0, call_s=3.0, total_s=60.0)
FIGURES = Figures(
    "cpu (made-up figures of the self-check)",
    15.0,
    [
        {"name": "short", "conditional_acceptance": [0.6, 0.5], "draft_ms": 0.1}
        | {"verify_ms": 17.0, "overhead_ms": 1.0, "extra_memory_gb": 0.01},
        {"name": "long", "conditional_acceptance": [0.9, 0.85, 0.8, 0.8], "draft_ms": 0.1}
        | {"verify_ms": 24.0, "overhead_ms": 1.0, "extra_memory_gb": 0.02},
    ],
)
GRADES = """
SELECT student_id, base_cell.name, auto_score, manual_score, needs_manual_grade
FROM grade JOIN base_cell ON base_cell.id = grade.cell_id
JOIN submitted_notebook ON submitted_notebook.id = grade.notebook_id
JOIN submitted_assignment ON submitted_assignment.id = submitted_notebook.assignment_id
"""

Marks = dict[str, tuple[float | None, float | None, bool]]


@contextlib.contextmanager
def short_judging() -> Iterator[None]:
    """Judge with made-up figures and short limits: nothing is measured for a self-check."""
    quick = functools.partial(judge, limits=LIMITS)
    with (
        mock.patch.object(parallel, "judge", quick),
        mock.patch.object(figures, "measured", lambda: FIGURES),
    ):
        yield


class Arena:
    """The classroom, what it held before an attack, and a listener for attacks that call home."""

    def __init__(self, folder: Path) -> None:
        self.room: Classroom = create_classroom(folder / "class", "en")
        release(self.room, UNIT)
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        # Another arena may be at work on this machine.
        self.canary = f"{CANARY}-{os.getpid()}-{folder.name}"
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.listener.setblocking(False)

    @property
    def port(self) -> int:
        """Where an attack that calls home would reach somebody."""
        return self.listener.getsockname()[1]

    def close(self) -> None:
        self.listener.close()

    def hand_in(self, student: str, attack: Attack | None) -> None:
        """Put an attack, or with None an honest right answer, into submitted/."""
        nb = nbformat.read(self.room.notebook("release", UNIT), as_version=4)
        path = self.room.notebook("submitted", UNIT, student)
        path.parent.mkdir(parents=True)
        if attack is None:
            fill_in(nb)
        else:
            apply_to_notebook(attack, nb)
        path.write_text(json.dumps(nb), encoding="utf-8")
        if attack is not None:
            apply_to_folder(attack, path.parent)
            self.mark(path.parent)

    def mark(self, folder: Path) -> None:
        """Put this arena's own canary and port in place of those that attacks are written with."""
        for path in [] if folder.is_symlink() else folder.glob("*.*"):
            if path.is_file() and not path.is_symlink() and path.stat().st_size < MAX_MARKED_BYTES:
                text = path.read_bytes().replace(CANARY.encode(), self.canary.encode())
                path.write_bytes(text.replace(PORT.encode(), str(self.port).encode()))

    def grade(self, student: str) -> Status:
        """Take one submission through the classroom's own autograde."""
        with (
            mock.patch.object(tempfile, "tempdir", str(self.temporary)),
            contextlib.redirect_stdout(None),
        ):
            (status,) = submissions.autograde(self.room, UNIT, student)
        return status

    def grade_victim(self) -> None:
        """A student with every mark decided, graded before all others."""
        self.hand_in(VICTIM, None)
        self.grade(VICTIM)
        with self.room.api.gradebook as gradebook:
            for name in ("q1", "q2", "q3"):
                grade = gradebook.find_grade(name, UNIT, UNIT, VICTIM)
                grade.manual_score, grade.needs_manual_grade = 1.5, False
            gradebook.db.commit()
        with contextlib.redirect_stdout(None):
            submissions.write_feedback(self.room, UNIT)

    def marks(self, student: str) -> Marks:
        """The gradebook's rows of a student by cell."""
        return {cell: rest for (who, cell), rest in self._rows().items() if who == student}

    def _rows(self) -> dict[tuple[str, str], tuple[float | None, float | None, bool]]:
        with contextlib.closing(sqlite3.connect(self.room.path / "gradebook.db")) as database:
            rows = database.execute(GRADES).fetchall()
        return {(who, cell): (auto, manual, bool(needs)) for who, cell, auto, manual, needs in rows}

    def surroundings(self, student: str) -> dict[str, Any]:
        """All that grading this student must not change, and all that it must not leave."""
        return {
            "marks of others": {k: row for k, row in self._rows().items() if k[0] != student},
            "files of others": self._files(student),
            "left-over files": stray_files([self.temporary, *public_places()], self.canary),
            "left-over processes": stray_processes(self.canary),
            "network": self._has_been_called(),
        }

    def _files(self, student: str) -> dict[str, tuple[int, int, int]]:
        """Every file of the classroom but what grading this student writes."""
        folders = (f"{step}/{student}/" for step in ("autograded", "feedback", ".intake"))
        own = (f".graded/{UNIT}/{student}.", *folders)
        found = {}
        for path in self.room.path.rglob("*"):
            name = path.relative_to(self.room.path).as_posix()
            if f"{name}/".startswith(own) or name.startswith((*own, *KEPT_OPEN)):
                continue
            if path.is_symlink() or not path.is_dir():
                stat = path.lstat()
                found[name] = (stat.st_ino, stat.st_size, stat.st_ctime_ns)
        return found

    def _has_been_called(self) -> bool:
        try:
            self.listener.accept()[0].close()
            return True
        except BlockingIOError:
            return False


def fill_in(notebook: nbformat.NotebookNode) -> None:
    """The honest student: right code, every question answered."""
    answers = assignment.read_answers(assignment.answers_path(UNIT, "en"))
    for cell in notebook.cells:
        if cell.id in ("q1", "q2", "q3"):
            cell.source = "The verifier owns nothing."
        elif cell.id in answers:
            cell.source = answers[cell.id][1]
        if cell.id == "acceptance_cost_model":
            cell.source = PLAIN["right"]


def public_places() -> list[Path]:
    """Where a program may usually write, besides the classroom."""
    home = Path.home()
    startup = home / ".ipython/profile_default/startup"
    return [Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), home, startup, REPO, Path.cwd()]
