"""Which source objects are right answers to the mapping exercise."""

import functools
import re
from pathlib import Path

from course.render.source_map import DEFAULT_MAP, SourceMapError, load
from course.render.source_map import accepted_answers as answers_of
from lessons.lib.checks.asking import Rejected

SEPARATORS = re.compile(r"[.:#/\\]+")


@functools.cache
def accepted_answers(path: Path = DEFAULT_MAP) -> dict[str, set[str]]:
    """For each key the full names of the right objects. Raises Rejected (not_measured)."""
    try:
        accepted = answers_of(load(path))
    except SourceMapError as error:
        raise Rejected(f"not graded: {error}", "not_measured") from error
    for key, names in accepted.items():
        if not names:
            raise Rejected(f"not graded: {path.name} has no answer for {key}", "not_measured")
    return accepted


def dotted_name(text: str) -> str:
    """One spelling for `path.py::Class.method`, `module.Class.method` and `Class.method()`."""
    parts = SEPARATORS.split(text.strip().strip("`'\" ").removesuffix("()"))
    return ".".join(part for part in parts if part != "py")


def names_one_of(text: str, full_names: set[str]) -> bool:
    """Does the text name one of them, as much of its class and path as it gives?

    The class counts: `Other.forward` is not `Model.forward`.
    """
    name = dotted_name(text)
    return any(full == name or full.endswith(f".{name}") for full in full_names)
