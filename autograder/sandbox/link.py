"""One worker process and its conversation: believe only a valid answer within the time limit."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder.sandbox import launcher, wire
from autograder.sandbox.launcher import NO_EXTRAS, Extras, Limits, SandboxError
from lessons.lib.checks.outcome import Outcome, OutcomeKind

SLICE_S = 0.5  # how long to wait at a time


class Worker:
    """One worker process. After `is_lost` it is dead and stays so. Raises SandboxError."""

    def __init__(
        self,
        isolation: str,
        limits: Limits,
        libraries: Sequence[Path] = (),
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self.limits = limits
        self.process = launcher.start(isolation, limits, libraries, extras)
        self.held_up_s = 0.0
        self.buffer = b""
        self.num_requests = 0
        hello = self._receive(time.monotonic() + limits.start_s)
        if isinstance(hello, Outcome):
            self.close()
            raise SandboxError(f"the worker did not start ({hello.kind})")

    def close(self) -> None:
        self.process.kill()

    def ask(self, request: dict[str, Any], timeout_s: float) -> Outcome | dict[str, Any]:
        """Send a request; return the reply's fields, or an Outcome that `is_lost`."""
        self.num_requests += 1
        deadline = time.monotonic() + timeout_s
        try:
            self.process.channel.settimeout(timeout_s)
            self.process.channel.sendall(wire.dumps({"id": self.num_requests, **request}))
        except TimeoutError:
            return self._lost("timeout", "took no more requests")
        except OSError:
            return self._lost("died", self._exit_text())
        reply = self._receive(deadline)
        if isinstance(reply, dict) and reply.get("id") != self.num_requests:
            return self._lost("garbled", "answered a question that was not asked")
        return reply

    def _receive(self, deadline: float) -> Outcome | dict[str, Any]:
        """One line before the deadline, by the grader's clock, and not a byte more."""
        while b"\n" not in self.buffer:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return self._lost("timeout", "did not finish in time: is there an endless loop?")
            if len(self.buffer) > wire.MAX_MESSAGE_BYTES:
                return self._lost("garbled", "sent more than an answer may hold")
            before = time.monotonic()
            chunk = self._chunk(min(remaining, SLICE_S))
            deadline += self._held_up(time.monotonic() - before)
            if chunk is None:
                continue
            if not chunk:
                return self._lost("died", self._exit_text())
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        if self.buffer or len(line) > wire.MAX_MESSAGE_BYTES:
            return self._lost("garbled", "sent more than the answer")
        try:
            return wire.loads(line)
        except wire.WireError as error:
            return self._lost("garbled", str(error))

    def _chunk(self, timeout_s: float) -> bytes | None:
        """What has come; None when nothing has; b"" when nothing will."""
        try:
            self.process.channel.settimeout(timeout_s)
            return self.process.channel.recv(1 << 16)
        except TimeoutError:
            # A child of a dead worker may still hold the socket open.
            return None if self.process.popen.poll() is None else b""
        except OSError:
            return b""

    def _held_up(self, waited_s: float) -> float:
        """Time in which the grader itself was stopped or starved: not the student's."""
        if waited_s < 2 * SLICE_S:
            return 0.0
        self.held_up_s += waited_s - SLICE_S
        return waited_s - SLICE_S

    def _exit_text(self) -> str:
        try:
            code = self.process.popen.wait(timeout=2.0)
        except Exception:
            return "closed its connection to the grader"
        return f"ended the whole process (status {code})"

    def _lost(self, kind: OutcomeKind, detail: str) -> Outcome:
        self.close()
        if self.process.watch.is_machine_full:
            raise SandboxError("this machine ran out of memory")
        if self.process.is_out_of_memory():
            gib = self.limits.total_memory_bytes / (1 << 30)
            return Outcome("memory", detail=f"took more than {gib:.3g} GiB of memory")
        return Outcome(kind, detail=detail)


def read_reply(reply: dict[str, Any]) -> Outcome:
    """Validate a reply field by field; whatever does not fit is garbled."""
    try:
        if reply.get("missing") is True:
            return Outcome("missing")
        if isinstance(reply.get("refused"), str):
            return Outcome("refused", detail=one_line(reply["refused"], 100))
        if isinstance(reply.get("error"), dict):
            return _read_error(reply["error"])
        if "output" in reply and reply.get("error") is None:
            return Outcome("value", detail=str(reply["output"])[:65536])
        args = wire.from_wire(reply["args"])
        if not isinstance(args, list):
            raise wire.WireError("arguments are no list")
        value, worker_ms = wire.from_wire(reply["value"]), reply.get("elapsed_ms", 0.0)
        if type(worker_ms) not in (int, float):
            raise wire.WireError("a time that is no number")
        return Outcome("value", value=value, args=tuple(args), worker_ms=float(worker_ms))
    except (wire.WireError, KeyError, TypeError, RecursionError, OverflowError):
        return Outcome("garbled", detail="sent an answer that is not plain data")


def _read_error(error: dict[str, Any]) -> Outcome:
    bases = tuple(base for base in error["bases"] if isinstance(base, str))
    line = error["line"] if type(error["line"]) is int else 0
    kind, text = one_line(str(error["type"]), 100), one_line(str(error["text"]), 500)
    return replace(Outcome("error"), error_type=kind, detail=text, bases=bases, line=line)


def one_line(text: str, max_chars: int) -> str:
    """A student's words as they may stand in a table: one line, printable, bounded."""
    line = " ".join(text[: 4 * max_chars].split())
    return "".join(char if char.isprintable() else "?" for char in line)[:max_chars]
