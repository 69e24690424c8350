"""The notebook asks itself: a student's functions called in their own process.

Stands where the grader has its sandbox, and gives the same outcomes. Nothing here is trusted.
"""

from __future__ import annotations

import copy
import traceback
from collections.abc import Mapping
from typing import Any

from lessons.lib.checks.outcome import Outcome


class LocalStudent:
    """The functions that a notebook has defined; `namespace` is its globals()."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.namespace = namespace
        self.cell_outcomes: dict[str, Outcome] = {}

    def call(self, name: str, *args: Any, **kwargs: Any) -> Outcome:
        """Call a function on copies of the arguments, as the grader's worker does."""
        if name not in self.namespace:
            return Outcome("missing")
        given, options = copy.deepcopy(args), copy.deepcopy(kwargs)
        try:
            value = self.namespace[name](*given, **options)
        except Exception as error:
            return _raised(error)
        return _value(value, given)

    def get(self, name: str) -> Outcome:
        """The plain value of a name."""
        if name not in self.namespace:
            return Outcome("missing")
        return _value(self.namespace[name], ())

    def pause(self) -> None:
        """Nothing to stop: this is the only process."""

    def resume(self) -> None:
        """See `pause`."""


def _value(value: Any, args: tuple[Any, ...]) -> Outcome:
    try:
        return Outcome("value", value=plain(value), args=args)
    except TypeError as error:
        return Outcome("refused", detail=str(error))


def plain(value: Any) -> Any:
    """Plain data as it would cross the grader's border: arrays and scalars of numpy and torch
    become lists and numbers. Raises TypeError, naming the type of what is not plain."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value)) if type(value) in (list, tuple) else _not_plain(value)
    if type(value) is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    if type(value).__module__.split(".")[0] in ("numpy", "torch") and hasattr(value, "tolist"):
        return plain(value.tolist())
    return _not_plain(value)


def _not_plain(value: Any) -> Any:
    raise TypeError(type(value).__name__)


def _raised(error: Exception) -> Outcome:
    """An exception with the line of the cell that it came from."""
    bases = tuple(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins")
    lines = [frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__)[1:]]
    return Outcome(
        "error",
        error_type=type(error).__name__,
        bases=bases,
        detail=str(error)[:500],
        line=lines[0] if lines else 0,
    )
