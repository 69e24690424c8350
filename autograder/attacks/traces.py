"""How to tell that an attack has left something: they put a canary into the names they use.

Standard library only: it is also run beside stock nbgrader, where every import is paid for often.
"""

import contextlib
import os
from pathlib import Path

CANARY = "specdec-canary"
PORT = "47631"  # where attacks call home, as their text has it


def stray_files(places: list[Path], canary: str) -> set[str]:
    """Files by which attacks can be told, directly in these folders."""
    named = {str(path) for place in places for path in place.glob(f"*{canary}*")}
    for library in (Path.home() / ".local/lib").glob("python*"):
        named |= {str(path) for path in library.glob(f"site-packages/*{canary}*")}
    return named | {str(path) for path in places[0].iterdir()}


def stray_processes(canary: str = CANARY) -> set[str]:
    """Processes of attacks by their command line, and any child of this process."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if canary.encode() in command or parent == str(os.getpid()):
                program, _, rest = command.partition(b"\0")
                name = Path(os.fsdecode(program)).name  # ledgers name no folder of a machine
                found.add(f"{entry.name} {os.fsencode(name) + b' ' + rest[:80]!r}")
    return found
