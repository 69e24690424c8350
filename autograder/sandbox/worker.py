"""The program inside the sandbox: runs a student's cells and calls their functions.

Nothing here is trusted once a student's cell has run, since that cell can rewrite all of it.
It holds no expected value, no seed and no clock that counts; the grader believes only what
`wire.from_wire` lets through. Standard library only, so that a start costs milliseconds.

Usage: python worker.py SOCKET_FD LIMITS_JSON
"""

import ast
import ctypes
import io
import json
import os
import re
import resource
import signal
import socket
import sys
import time
import types
from typing import Any

import wire  # type: ignore[import-not-found]  # lies beside this file, no package inside

MAX_OUTPUT_CHARS = 64 * 1024
MAX_ERROR_CHARS = 500
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
now = time.perf_counter


def confine(limits: dict[str, Any]) -> None:
    """Give up privileges and set the process limits; children inherit both.

    Must hold before the first student's line runs. Hard limits, so they cannot be raised again.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if limits["keeps_orphans"]:  # so that whoever watches this process finds them
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")  # if memory runs out, the kernel takes the student, not the grader
    if limits["drop_to_uid"] >= 0:
        os.setgroups([])
        os.setresgid(*[limits["drop_to_uid"]] * 3)
        os.setresuid(*[limits["drop_to_uid"]] * 3)
    for name, wanted in limits["rlimits"].items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        bound = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (bound, bound))


class BoundedText(io.TextIOBase):
    """Takes the place of stdout and stderr; keeps the first 64 Ki characters of a cell."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.room = MAX_OUTPUT_CHARS

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.room > 0:
            self.kept.append(text[: self.room])
            self.room -= len(self.kept[-1])
        return len(text)

    def take(self) -> str:
        text = "".join(self.kept)
        self.kept, self.room = [], MAX_OUTPUT_CHARS
        return text


class Student:
    """The namespace in which the cells run, one for the life of the process."""

    def __init__(self) -> None:
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self.names: dict[str, Any] = module.__dict__
        self.names["display"] = lambda *objects, **options: None  # Jupyter's, absent here
        self.pinned: dict[str, Any] = {}
        self.output = BoundedText()
        sys.stdout = sys.stderr = self.output

    def cell(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one cell; afterwards pin the exercise's names, which later cells cannot rebind."""
        source = without_magics(request["source"])
        if source is None:
            return {"error": None, "output": ""}
        error = None
        try:
            exec(compile(source, f"<cell {request['cell']}>", "exec"), self.names)
        except BaseException as raised:
            error = describe(raised)
        pin = [name for name in request["pin"] if name in self.names]
        self.pinned.update({name: self.names[name] for name in pin})
        return {"error": error, "output": self.output.take()}

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call a function; return its value and its arguments as they are afterwards."""
        self.names.update(self.pinned)
        if request["name"] not in self.names:
            return {"missing": True}
        args, options = wire.from_wire(request["args"]), wire.from_wire(request["kwargs"])
        try:
            watch = Stopwatch()
            value = self.names[request["name"]](*args, **options)
            elapsed_ms = watch.read_ms()
            answer = {"value": wire.to_wire(value), "args": wire.to_wire(args)}
            return {**answer, "elapsed_ms": elapsed_ms}
        except wire.WireError as error:
            return {"refused": str(error)}
        except BaseException as raised:
            return {"error": describe(raised)}

    def get(self, request: dict[str, Any]) -> dict[str, Any]:
        """The value of a name."""
        self.names.update(self.pinned)
        if request["name"] not in self.names:
            return {"missing": True}
        try:
            return {"value": wire.to_wire(self.names[request["name"]]), "args": []}
        except wire.WireError as error:
            return {"refused": str(error)}
        except BaseException as raised:
            return {"error": describe(raised)}


class Stopwatch:
    """How long a call took by this process: device events where it drives a card, else its clock.

    Only a second opinion: the grader's own clock decides.
    """

    def __init__(self) -> None:
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        self.cuda = cuda if cuda is not None and cuda.is_initialized() else None
        if self.cuda is not None:
            self.cuda.synchronize()
            self.begin = self.cuda.Event(enable_timing=True)
            self.begin.record()
        self.started = now()

    def read_ms(self) -> float:
        if self.cuda is None:
            return (now() - self.started) * 1e3
        self.cuda.synchronize()  # the whole device: work on another stream counts too
        end = self.cuda.Event(enable_timing=True)
        end.record()
        end.synchronize()
        return float(self.begin.elapsed_time(end))


def without_magics(source: str) -> str | None:
    """A cell's Python without IPython lines; None for a cell in another language.

    Only a cell that is not Python as it stands is touched, so a string may hold a % line.
    """
    try:
        ast.parse(source)
        return source
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    if re.match(r"\s*%%(?!time|capture|prun)", source):
        return None
    return re.sub(r"(?m)^([ \t]*)(%.*|!.*|\?.*|[\w.]+\?{1,2}[ \t]*)$", r"\1pass", source)


def describe(raised: BaseException) -> dict[str, Any]:
    """An exception as plain data: type, built-in bases, text, line in the student's cell."""
    kind = type(raised)
    try:
        text = str(raised)[:MAX_ERROR_CHARS]
    except BaseException:
        text = "(its message cannot be read)"
    line, frame = 0, raised.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename.startswith("<cell "):
            line = frame.tb_lineno
        frame = frame.tb_next
    if isinstance(raised, SyntaxError) and isinstance(raised.lineno, int):
        line = raised.lineno
    bases = [base.__name__ for base in kind.__mro__ if base.__module__ == "builtins"]
    return {"type": str(kind.__name__)[:100], "bases": bases, "text": text, "line": line}


def serve(channel: socket.socket) -> None:
    """Answer requests until the grader hangs up. A forked copy of this process answers nothing."""
    student, own_pid = Student(), os.getpid()
    channel.sendall(wire.dumps({"id": 0, "ready": True}))
    for line in channel.makefile("rb"):
        request = json.loads(line)
        reply = getattr(student, request["op"])(request)
        if os.getpid() != own_pid:
            os._exit(0)
        try:
            answer = wire.dumps({"id": request["id"], **reply})
        except (wire.WireError, ValueError):
            answer = wire.dumps({"id": request["id"], "refused": "value too large"})
        channel.sendall(answer)
    os._exit(0)


def main() -> None:
    sys.path.pop(0)  # the folder of this file: no name of ours may shadow a student's import
    confine(json.loads(sys.argv[2]))
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    sys.argv = [""]
    serve(channel)


if __name__ == "__main__":
    main()
