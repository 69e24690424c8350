"""The secret seed: the one thing about the checks that is not public.

Order of precedence: an explicit argument, the variable GRADER_SEED, then the file
`<classroom>/grader_seed`, which is created on first use, readable by its owner only.
Whoever holds the seed can compute every hidden input, so it never enters the sandbox.
"""

import os
import secrets
import tempfile
from pathlib import Path

SEED_FILE = "grader_seed"


class SeedError(ValueError):
    """The seed is not a whole number, or its file cannot be used."""


def classroom_dir() -> Path:
    """The instructor's nbgrader course directory: CLASSROOM, by default `classroom/`."""
    return Path(os.environ.get("CLASSROOM") or "classroom")


def grader_seed(argument: str | None = None, classroom: Path | None = None) -> int:
    """Return the secret seed as an integer >= 0. Raises SeedError."""
    if argument is not None:
        return _parse(argument, "--seed")
    if os.environ.get("GRADER_SEED"):
        return _parse(os.environ["GRADER_SEED"], "GRADER_SEED")
    path = (classroom or classroom_dir()) / SEED_FILE
    try:
        if not path.exists():
            _create(path)
        return _parse(path.read_text(encoding="ascii"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SeedError(f"{path}: cannot use the seed file ({error}); set GRADER_SEED") from error


def _parse(text: str, origin: str) -> int:
    if not text.strip().isascii() or not text.strip().isdigit() or len(text) > 100:
        shown = text.strip()[:20]
        raise SeedError(f"{origin}: {shown!r} is not a seed; give a whole number such as 7")
    return int(text)


def _create(path: Path) -> None:
    """Link a complete file into place, so that a second grader never reads half a seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".grader_seed-")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:  # mkstemp gives mode 0600
            file.write(f"{secrets.randbits(64)}\n")
        os.link(temporary, path)
    except FileExistsError:
        pass  # another grader was first; its seed counts
    finally:
        os.unlink(temporary)
