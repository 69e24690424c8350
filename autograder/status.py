"""What happened to each submission: graded, unreadable or failed, from which input, and why.

Kept in <classroom>/.graded/<unit>/<student>.json, outside nbgrader's folders, because nbgrader
empties a folder before it grades again.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

FOLDER = ".graded"
MAX_HASHED_BYTES = 256 << 20


class StatusError(ValueError):
    """The classroom is in use; the message says what to do."""


@dataclass(frozen=True)
class Status:
    """The last attempt at one submission. `state` is graded, unreadable or failed.

    `seed` is which of the classroom's secret seeds it was judged with, the first being 1.
    """

    student: str
    state: str
    fingerprint: str
    messages: list[str] = field(default_factory=list)
    seed: int = 0


def status_file(classroom: Path, unit: str, student: str) -> Path:
    """Where the status of one submission is kept."""
    return classroom / FOLDER / unit / f"{student}.json"


def read_status(classroom: Path, unit: str, student: str) -> Status | None:
    """The recorded status; None where there is none, or only a damaged one."""
    try:
        text = status_file(classroom, unit, student).read_text(encoding="utf-8")
        return Status(**json.loads(text))
    except (OSError, ValueError, TypeError):
        return None


def write_status(classroom: Path, unit: str, status: Status) -> None:
    """Record a status."""
    path = status_file(classroom, unit, status.student)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(asdict(status), indent=1, ensure_ascii=False))


def seed_number(classroom: Path, seed: int) -> int:
    """The how-manieth secret seed of this classroom it is; a new one is noted, as a digest."""
    file = classroom / FOLDER / "seeds"
    digest = hashlib.sha256(f"seed {seed}".encode()).hexdigest()
    known = file.read_text(encoding="ascii").split() if file.exists() else []
    if digest not in known:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, "\n".join([*known, digest]))
        known.append(digest)
    return known.index(digest) + 1


@contextlib.contextmanager
def only_grader(classroom: Path) -> Iterator[None]:
    """One process at a time may grade a classroom. Raises StatusError; a killed one lets go."""
    folder = classroom / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StatusError(
                f"{classroom}: another process is grading here; wait until it is done"
            ) from None
        yield


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, and a run after a kill, sees the old one or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def content_digest(file: Path) -> bytes:
    """A digest of a file's content; of the reason where it cannot be read.

    Of a huge file only size and time count: a student may hand one in that nobody can read.
    """
    try:
        stat = file.stat()
        if stat.st_size > MAX_HASHED_BYTES:
            return repr((stat.st_size, stat.st_mtime_ns)).encode()
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError as error:
        return repr(error).encode()


def fingerprint(paths: Iterable[Path], *values: object) -> str:
    """A digest of files (folders with all files below them, caches left out) and plain values."""
    digest = hashlib.sha256(repr(values).encode())
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and not file.is_symlink() and "__pycache__" not in file.parts:
                # As bytes: a name need not be UTF-8, one from an old zip file often is not.
                digest.update(os.fsencode(file.relative_to(path)) + b"\0")
                digest.update(content_digest(file))
    return digest.hexdigest()
