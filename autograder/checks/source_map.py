"""Which source objects are right answers to the mapping exercise."""

import functools
import re
from pathlib import Path
from typing import Any

from course.render.source_map import ANSWER_KEYS, DEFAULT_MAP, SourceMapError, load
from course.render.source_map import accepted_answers as answers_of
from lessons.lib.checks.asking import BLANK, Rejected

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


def is_one_name(value: str) -> bool:
    """A list of candidates is no answer."""
    return not re.search(r"[\s,;|]", value.strip().strip("`'\" "))


def compare(given: dict[Any, Any], accepted: dict[str, set[str]]) -> tuple[int, str]:
    """How many keys are right, and what is wrong in words; "" when all are right."""
    kinds: dict[str, list[str]] = {
        "missing": [],
        "not filled in": [],
        "not one name": [],
        "not right": [],
    }
    for key in ANSWER_KEYS:
        value = given.get(key)
        if key not in given:
            kinds["missing"].append(key)
        elif not isinstance(value, str) or not value.strip(" _") or BLANK in value:
            kinds["not filled in"].append(key)
        elif not is_one_name(value):
            kinds["not one name"].append(key)
        elif not names_one_of(value, accepted[key]):
            kinds["not right"].append(key)
    wrong = [f"{what}: {', '.join(keys)}" for what, keys in kinds.items() if keys]
    num_right = len(ANSWER_KEYS) - sum(map(len, kinds.values()))
    return (
        num_right,
        f"{num_right} of {len(ANSWER_KEYS)} right; {'; '.join(wrong)}" if wrong else "",
    )
