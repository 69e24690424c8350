"""Start and kill one worker process, as isolated as this machine allows.

Three ways, tried in this order (`session.find_isolation`):
1. bubblewrap started by root: namespaces without a user namespace, and the worker drops to uid
   65534 itself. The process limit binds, because the uid is really another one.
2. bubblewrap with a user namespace: for an ordinary user.
3. no bubblewrap: resource limits only. Enough against accidents, not against malice: the worker
   can read what the grader's user can read. Said loudly and recorded with every grade.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autograder.sandbox.memory import Cgroup, Watch, make_cgroup
from autograder.sandbox.processes import descendants, environments, kill_marked, send

HERE = Path(__file__).resolve().parent
REPO = HERE.parent.parent
NOBODY = 65534
# Room in the address space for mapped libraries: a CUDA build of torch maps several GB of them.
LIBRARY_BYTES = 8 << 30
SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
INSTALL_HINT = "apt-get install bubblewrap"


class SandboxError(RuntimeError):
    """The sandbox itself does not work: the grader's problem, never the student's."""


@dataclass(frozen=True)
class Limits:
    """What one worker may use. Times in seconds by the grader's clock, sizes in bytes.

    `memory_bytes` and `cpu_s` bound each of its processes, `total_memory_bytes` all of them
    together; bubblewrap bounds their number.
    """

    memory_bytes: int = 4 << 30
    total_memory_bytes: int = 5 << 30
    cpu_s: int = 300
    file_bytes: int = 64 << 20
    tmp_bytes: int = 256 << 20
    num_files: int = 256
    num_processes: int = 64
    start_s: float = 60.0
    cell_s: float = 20.0
    call_s: float = 10.0
    total_s: float = 180.0
    max_restarts: int = 6


@dataclass(frozen=True)
class Extras:
    """What a worker may have beyond the usual: our model's files, threads, a card.

    `read_only` are shown where they lie; `devices` are device nodes such as /dev/nvidia0;
    `environment` adds variables. Nothing here comes from a student.
    """

    read_only: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


NO_EXTRAS = Extras()


@dataclass
class Process:
    """A running worker; the launcher owns its processes, socket and private folder."""

    popen: "subprocess.Popen[bytes]"
    channel: socket.socket
    folder: Path
    mark: str
    cgroup: Cgroup | None
    watch: Watch

    def pause(self) -> None:
        """Stop the worker and everything it started, until `resume`: it computes nothing."""
        stopped: set[int] = set()
        while new := self._family() - stopped:  # what one forked before it was stopped
            send(new, signal.SIGSTOP)
            stopped |= new

    def resume(self) -> None:
        """Let go on what `pause` stopped."""
        send(self._family(), signal.SIGCONT)

    def _family(self) -> set[int]:
        """The worker and its descendants, and whoever else still carries its mark."""
        marked = {pid for pid, text in environments() if self.mark.encode() in text}
        return marked | descendants(self.popen.pid)

    def kill(self) -> None:
        """Kill the worker and everything it started; wait; remove its folder."""
        self.channel.close()
        self.watch.stop()
        if self.is_out_of_memory():  # while the group that knows is still there
            self.watch.is_over = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        kill_marked(self.mark)
        if self.cgroup:
            self.cgroup.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_out_of_memory(self) -> bool:
        """Whether it, with all its processes, took more memory than it may."""
        return self.watch.is_over or bool(self.cgroup and self.cgroup.has_overflowed())


def start(
    isolation: str,
    limits: Limits,
    libraries: Sequence[Path] = (),
    extras: Extras = NO_EXTRAS,
) -> Process:
    """Start a worker under `isolation` (one of ISOLATIONS). Raises SandboxError.

    `libraries` are the folders of this repository that a setup cell may import; bubblewrap
    shows the worker those and nothing else of the repository.
    """
    ours, theirs = socket.socketpair()
    folder = Path(tempfile.mkdtemp(prefix="specdec-worker-"))
    mark = f"SPECDEC_WORKER={folder.name}"
    worker = HERE / "worker.py" if isolation == "rlimits" else Path("/worker/worker.py")
    plan = {
        "drop_to_uid": NOBODY if isolation == "root" else -1,
        "keeps_orphans": isolation == "rlimits",
        "rlimits": _rlimits(limits, isolation, bool(extras.devices)),
    }
    command = [sys.executable, "-s", "-B", str(worker), str(theirs.fileno()), json.dumps(plan)]
    python_path = str(REPO) if isolation == "rlimits" else "/course"
    env = _environment(folder if isolation == "rlimits" else Path("/tmp"), mark)
    env |= extras.environment
    if libraries:
        env["PYTHONPATH"] = python_path
    if isolation != "rlimits":
        command = [*_bubblewrap(isolation, limits, libraries, extras, env), "--", *command]
    cgroup = make_cgroup(folder.name, limits.total_memory_bytes)
    if cgroup:
        command = cgroup.entered(command)
    try:
        popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd=folder,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        if cgroup:
            cgroup.remove()
        shutil.rmtree(folder, ignore_errors=True)
        raise SandboxError(f"cannot start a worker: {error}") from error
    finally:
        theirs.close()
    watch = Watch(popen.pid, limits.total_memory_bytes, cgroup)
    watch.start()
    return Process(popen, ours, folder, mark, cgroup, watch)


def _rlimits(limits: Limits, isolation: str, has_card: bool = False) -> dict[str, int]:
    if has_card:  # the driver reserves more address space than any machine has memory
        return {k: v for k, v in _rlimits(limits, isolation).items() if k not in ("AS", "DATA")}
    return {
        "DATA": limits.memory_bytes,
        "AS": limits.memory_bytes + LIBRARY_BYTES,
        "CPU": limits.cpu_s,
        "FSIZE": limits.file_bytes,
        "CORE": 0,
        "NOFILE": limits.num_files,
        "NPROC": limits.num_processes + _num_tasks_of_user(isolation),
    }


def _num_tasks_of_user(isolation: str) -> int:
    """Without namespaces the process limit counts everything the user already runs."""
    if isolation != "rlimits":
        return 0
    tasks = Path("/proc").glob("[0-9]*/task/[0-9]*")
    return sum(1 for task in tasks if _owner(task) == os.getuid())


def _owner(path: Path) -> int:
    try:
        return path.stat().st_uid
    except OSError:
        return -1


def _environment(home: Path, mark: str) -> dict[str, str]:
    """A fixed environment: nothing of the grader's own (its seed!) is handed on."""
    name, value = mark.split("=")
    return {
        "HOME": str(home),
        "TMPDIR": str(home),
        "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "NBGRADER_EXECUTION": "autograde",
        name: value,
    }


def _bubblewrap(
    isolation: str, limits: Limits, libraries: Sequence[Path], extras: Extras, env: dict[str, str]
) -> list[str]:
    """The bwrap command up to `--`: what the worker can see and what it cannot do."""
    unshare = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    if isolation == "root":
        user = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        user = ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    command = [shutil.which("bwrap") or "bwrap", *unshare, "--unshare-cgroup-try"]
    command += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", *user]
    # Before the binds: a repository or a Python below /tmp must stay visible.
    command += ["--perms", "1777", "--size", str(limits.tmp_bytes), "--tmpfs", "/tmp"]
    command += _system_binds()
    command += ["--proc", "/proc", "--dev", "/dev"]
    for device in extras.devices:
        command += ["--dev-bind", str(device), str(device)]
    command += ["--perms", "0555", "--size", "4096", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for source in (HERE / "worker.py", HERE / "wire.py"):
        command += _bind(source, Path("/worker") / source.name)
    for path in extras.read_only:
        command += _bind(path, path)
    for library in libraries:
        command += _bind(library, Path("/course") / library.relative_to(REPO))
        if (library / "checks").is_dir():
            # The engine is for all; what a check compares with is not.
            hidden = str(Path("/course") / library.relative_to(REPO) / "checks")
            command += ["--perms", "0555", "--size", "4096", "--tmpfs", hidden]
    command += ["--remount-ro", "/", "--chdir", "/tmp", "--clearenv"]
    for name, value in env.items():
        command += ["--setenv", name, value]
    return command


def _system_binds() -> list[str]:
    """/usr and this Python, read-only. A repository that lies inside either is covered up."""
    command = ["--ro-bind", "/usr", "/usr"]
    for link in map(Path, SYSTEM_LINKS):
        if link.is_symlink():
            command += ["--symlink", os.readlink(link), str(link)]
        elif link.is_dir():
            command += ["--ro-bind", str(link), str(link)]
    command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    command += ["--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
    shown, prefix = [Path("/usr")], Path(sys.prefix)
    for home in _python_homes():
        if not any(home.is_relative_to(place) for place in shown):
            command += _bind(home, home)
            shown.append(home)
    if any(REPO.is_relative_to(place) for place in shown):
        command += ["--tmpfs", str(REPO)]
        shown = [place for place in shown if not prefix.is_relative_to(REPO)]
    if not any(prefix.is_relative_to(place) for place in shown):
        command += _bind(prefix, prefix)
    return command


def _python_homes() -> list[Path]:
    """The base Python's folder under every name by which the venv's interpreter leads to it."""
    homes, hop = [Path(sys.base_prefix), Path(sys.base_prefix).resolve()], Path(sys.executable)
    while hop.is_symlink():
        hop = hop.parent / os.readlink(hop)
        homes.append(Path(os.path.normpath(hop)).parent.parent)
    library = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "os.py")
    return [home for home in homes if (home / library).is_file()]


def _bind(source: Path, target: Path) -> list[str]:
    """Read-only bind whose parent folders anybody may walk through (bwrap makes them 0700)."""
    command = []
    for parent in reversed(target.parents[:-1]):
        if not parent.is_relative_to("/usr"):
            command += ["--perms", "0755", "--dir", str(parent)]
    return [*command, "--ro-bind", str(source), str(target)]
