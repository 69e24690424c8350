"""What came of asking a student's code, and who can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

OutcomeKind = Literal[
    "value", "error", "refused", "missing", "timeout", "died", "memory", "garbled"
]


@dataclass(frozen=True)
class Outcome:
    """What came of one request.

    kind     value    `value` is plain data; `args` are the call's arguments afterwards;
                      `worker_ms` is how long it took by the worker's clock: a second opinion
             error    the code raised `error_type`: `detail`, at `line` of its cell;
                      `bases` are the names of the built-in classes it derives from
             refused  it returned something that is not plain data; `detail` says what
             missing  no such name
             timeout, died, memory, garbled   the worker is gone; `detail` says why
    """

    kind: OutcomeKind
    value: Any = None
    args: tuple[Any, ...] = ()
    error_type: str = ""
    bases: tuple[str, ...] = ()
    detail: str = ""
    line: int = 0
    worker_ms: float = 0.0

    @property
    def is_value(self) -> bool:
        return self.kind == "value"

    @property
    def is_lost(self) -> bool:
        """The worker did not survive the request."""
        return self.kind in ("timeout", "died", "memory", "garbled")


class Student(Protocol):
    """Whoever holds a student's functions: the grader's sandbox, or the notebook itself."""

    @property
    def cell_outcomes(self) -> Mapping[str, Outcome]:
        """What happened when the cells ran, by label; empty where nobody recorded it."""
        ...

    def call(self, name: str, *args: Any, **kwargs: Any) -> Outcome:
        """Call a function with plain arguments, which the caller keeps unchanged."""
        ...

    def get(self, name: str) -> Outcome:
        """The plain value of a name."""
        ...

    def pause(self) -> None:
        """Stop the student's process where it has one of its own, so that others can be timed."""
        ...

    def resume(self) -> None:
        """Let it go on."""
        ...
