"""How far a student is: the check cells of their notebook, run on what they have written.

`python -m lessons.lib.progress NOTEBOOK` runs the setup, exercise and check cells of one notebook
in this process and prints how many checks hold as JSON. `progress` does that in a process of its
own, with a time limit, and keeps the answer by the notebook's and the checks' bytes. Checks that
need measurements (`live`) are left out. These are the public checks; the graded ones draw other
inputs.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CACHE = ".progress.json"
TIMEOUT_S = 120.0
LIVE = "live"
RUN_ROLES = ("setup", "exercise", "check")


@dataclass(frozen=True)
class Progress:
    """num_right of num_checks hold; `note` says why nothing could be run, or is empty."""

    num_right: int
    num_checks: int
    note: str = ""


def progress(notebook: Path) -> Progress:
    """The state of one notebook, from the cache of its folder where nothing has changed."""
    cache = notebook.parent / CACHE
    kept = _read(cache)
    key = _key(notebook)
    if kept.get(notebook.name, {}).get("key") == key:
        return Progress(**kept[notebook.name]["progress"])
    found = _run_apart(notebook)
    if not found.note:
        kept[notebook.name] = {"key": key, "progress": asdict(found)}
        cache.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return found


def _read(cache: Path) -> dict[str, Any]:
    """A kept cache; a damaged one counts as none."""
    try:
        kept = json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _key(notebook: Path) -> str:
    digest = hashlib.sha256(notebook.read_bytes())
    for path in sorted((Path(__file__).parent / "checks").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _run_apart(notebook: Path) -> Progress:
    command = [sys.executable, "-m", "lessons.lib.progress", str(notebook)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return Progress(0, 0, f"did not finish within {TIMEOUT_S:g} s: is there an endless loop?")
    lines = done.stdout.splitlines()
    try:
        return Progress(**json.loads(lines[-1]))
    except (IndexError, ValueError, TypeError):
        return Progress(0, 0, "could not be run: open it and run its cells")


def run_checks(notebook: Path) -> Progress:
    """Run the cells here. A cell that fails ends nothing: what depends on it fails too."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    num_right = num_checks = 0
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        role = cell.get("metadata", {}).get("course_role")
        if cell.get("cell_type") != "code" or role not in RUN_ROLES or cell.get("id") == LIVE:
            continue
        num_checks += role == "check"
        num_right += _runs(source_of(cell), namespace) and role == "check"
    return Progress(num_right, num_checks)


def source_of(cell: dict[str, Any]) -> str:
    """A cell's text; the notebook format allows a list of lines."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def _runs(source: str, namespace: dict[str, Any]) -> bool:
    """Whether a cell ran to its end."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(source, namespace)
        except (Exception, SystemExit):
            return False
    return True


if __name__ == "__main__":
    print(json.dumps(asdict(run_checks(Path(sys.argv[1])))))
