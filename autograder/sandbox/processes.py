"""Find the processes of a worker, whatever they did to hide, and signal them."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path


def descendants(root: int) -> set[int]:
    """A process and all below it. Orphans of a process namespace fall to its first process."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found, ahead = set(), [root]
    while ahead:
        pid = ahead.pop()
        found.add(pid)
        ahead += children.get(pid, [])
    return found


def descendants_now(root: int) -> Iterator[int]:
    """The same from the kernel's own lists: cheap enough to ask twenty times a second.

    It may miss one that starts or ends meanwhile, and some kernels keep no lists.
    """
    yield root
    for file in Path(f"/proc/{root}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in file.read_text().split():
                yield from descendants_now(int(child))


def send(pids: set[int], number: signal.Signals) -> None:
    """Signal those that still run."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_marked(mark: str) -> None:
    """Kill what escaped the process group: every process that still carries the worker's mark."""
    needle = mark.encode()
    for _ in range(200):  # a killed process may take a moment to go
        found = [pid for pid, text in environments() if needle in text]
        if not found:
            return
        send(set(found), signal.SIGKILL)
        time.sleep(0.01)


def environments() -> Iterator[tuple[int, bytes]]:
    """Every running process but this one, and its environment as far as it may be read."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and int(entry.name) != os.getpid():
                yield int(entry.name), (entry / "environ").read_bytes()
        except OSError:
            continue
