"""Bound the memory of a whole worker: all its processes together, however often it forks.

A process limit holds for one process. So each worker is watched, on every machine; and where this
user may make control groups, the kernel bounds it too, which also counts what no process has mapped
at the moment (shared memory, the files of a private /tmp). The watch ends a worker, too, when the
machine itself runs out of memory, whoever took it: that is then nobody's fault.
"""

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.sandbox.processes import descendants_now, send

MOUNT = Path("/sys/fs/cgroup")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
POLL_S = 0.05
MAX_SHARE = 0.1  # of one core, for watching
RESERVE_BYTES = 256 << 20  # what the grader and the system need, to go on
# The file that holds the limit, and the one that counts what the kernel killed for it.
FILES = {2: ("memory.max", "memory.events"), 1: ("memory.limit_in_bytes", "memory.oom_control")}


@dataclass(frozen=True)
class Cgroup:
    """A control group of one worker, of cgroup version 2 or 1; owned by the launcher."""

    folder: Path
    version: int

    def entered(self, command: Sequence[str]) -> list[str]:
        """The command, run inside: it is in before its first process exists."""
        enter = 'echo $$ > "$0" && exec "$@"'
        return ["/bin/sh", "-c", enter, str(self.folder / "cgroup.procs"), *command]

    def pids(self) -> list[int]:
        """All processes of the worker, also those that hide from everything else."""
        try:
            return [int(word) for word in (self.folder / "cgroup.procs").read_text().split()]
        except OSError:
            return []

    def has_overflowed(self) -> bool:
        """Whether the kernel killed one of them because the group was full."""
        try:
            text = (self.folder / FILES[self.version][1]).read_text()
        except OSError:
            return False
        found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
        return found is not None and int(found[1]) > 0

    def remove(self) -> None:
        """Kill what is left and remove the group."""
        for _ in range(200):  # a killed process may take a moment to go
            send(set(self.pids()), signal.SIGKILL)
            try:
                self.folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.01)


def make_cgroup(name: str, max_bytes: int) -> Cgroup | None:
    """A new group below `cgroup_home`, or None where this user may not make one."""
    home = cgroup_home()
    if home is None:
        return None
    parent, version = home
    _remove_abandoned(parent)
    folder = parent / f"specdec-{os.getpid()}-{name}"
    try:
        folder.mkdir()
        (folder / FILES[version][0]).write_text(str(max_bytes))
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    for file, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
        if (folder / file).exists():
            (folder / file).write_text(value)
    return Cgroup(folder, version)


def cgroup_home() -> tuple[Path, int] | None:
    """Where groups with a memory limit may be made: a folder, and the cgroup version.

    Version 2: the nearest group above this process that hands memory on and may be written to, as
    systemd gives it to a user. Version 1: the memory hierarchy, for root.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "memory" and os.access(MOUNT / "memory/cgroup.procs", os.W_OK):
            return MOUNT / "memory", 1
        if not controllers and (home := _delegated(MOUNT / path.lstrip("/"))):
            return home, 2
    return None


def _delegated(own: Path) -> Path | None:
    for folder in [own, *own.parents]:
        if not folder.is_relative_to(MOUNT):
            return None
        try:
            hands_on = (folder / "cgroup.subtree_control").read_text().split()
        except OSError:
            return None
        if "memory" in hands_on and os.access(folder / "cgroup.procs", os.W_OK):
            return folder
    return None


def _remove_abandoned(parent: Path) -> None:
    """Groups of graders that were killed: their workers died with them."""
    for folder in parent.glob("specdec-*-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


class Watch(threading.Thread):
    """Looks at a worker's memory until it is stopped, and kills the worker that takes too much.

    `is_over` says that it did, `is_machine_full` that the machine had no memory left.
    """

    def __init__(self, pid: int, max_bytes: int, cgroup: Cgroup | None) -> None:
        super().__init__(daemon=True)
        self.pid, self.max_bytes, self.cgroup = pid, max_bytes, cgroup
        self.is_over = self.is_machine_full = False
        self._stopped = threading.Event()

    def run(self) -> None:
        pause_s = POLL_S
        while not self._stopped.wait(pause_s):
            started = time.thread_time()
            pids = self.cgroup.pids() if self.cgroup else list(descendants_now(self.pid))
            # The kernel may have killed one process only; the others have no business without it.
            overflowed = self.cgroup is not None and self.cgroup.has_overflowed()
            self.is_over = overflowed or takes_more(pids, self.max_bytes)
            self.is_machine_full = not self.is_over and available_bytes() < RESERVE_BYTES
            if self.is_over or self.is_machine_full:
                send({self.pid, *pids}, signal.SIGKILL)
                return
            pause_s = max(POLL_S, (time.thread_time() - started) / MAX_SHARE)

    def stop(self) -> None:
        """Must come before the worker is waited for: its number may then be another's."""
        self._stopped.set()
        self.join()


def takes_more(pids: Sequence[int], max_bytes: int) -> bool:
    """Whether the processes together hold more; what they share counts once."""
    if sum(map(resident_bytes, pids)) <= max_bytes:
        return False
    return sum(map(proportional_bytes, pids)) > max_bytes


def resident_bytes(pid: int) -> int:
    """What a process has in memory, shared pages in full: quick, and never too little."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def proportional_bytes(pid: int) -> int:
    """The same with each shared page divided among those who have it mapped."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except ProcessLookupError:
        return 0
    except OSError:
        return resident_bytes(pid)
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def available_bytes() -> int:
    """What the machine can still give without swapping."""
    text = Path("/proc/meminfo").read_text()
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 1 << 62
