"""What happened to each submission: graded, unreadable or failed, from which input, and why.

Kept in <classroom>/.graded/<unit>/<student>.json, outside nbgrader's folders, because nbgrader
empties a folder before it grades again.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

FOLDER = ".graded"


@dataclass(frozen=True)
class Status:
    """The last attempt at one submission. `state` is graded, unreadable or failed."""

    student: str
    state: str
    fingerprint: str
    messages: list[str] = field(default_factory=list)


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
    """Record a status; a reader sees the old one or the new one, never half of one."""
    path = status_file(classroom, unit, status.student)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(status), indent=1, ensure_ascii=False), encoding="utf-8")
    fresh.replace(path)


def content_digest(file: Path) -> bytes:
    """A digest of a file's content; of the reason where it cannot be read."""
    try:
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
                digest.update(f"{file.relative_to(path)}\0".encode())
                digest.update(content_digest(file))
    return digest.hexdigest()
