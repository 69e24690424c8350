"""The mapping exercise of Lesson 8: one name of a source object for each figure of the cost model.

Whether a name has the form asked for, anybody may know. Which names are right, only the grader
does: it hands in `is_right`; the notebook has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from lessons.lib.checks.asking import BLANK

# The fields of the lesson's cost model, and the KV rollback: what the exercise asks for.
ANSWER_KEYS = (
    "conditional_acceptance",
    "draft_ms",
    "verify_ms",
    "overhead_ms",
    "extra_memory_gb",
    "kv_rollback",
)
NOT_FILLED = "not filled in"

IsRight = Callable[[str, str], bool]  # (key, name)


def is_one_name(value: str) -> bool:
    """A list of candidates is no answer."""
    return not re.search(r"[\s,;|]", value.strip().strip("`'\" "))


def problems_of(given: Mapping[Any, Any], is_right: IsRight | None = None) -> dict[str, list[str]]:
    """The keys that are not answered, by what is wrong with them."""
    kinds: dict[str, list[str]] = {
        "missing": [],
        NOT_FILLED: [],
        "not one name": [],
        "not right": [],
    }
    for key in ANSWER_KEYS:
        value = given.get(key)
        if key not in given:
            kinds["missing"].append(key)
        elif not isinstance(value, str) or not value.strip(" _") or BLANK in value:
            kinds[NOT_FILLED].append(key)
        elif not is_one_name(value):
            kinds["not one name"].append(key)
        elif is_right is not None and not is_right(key, value):
            kinds["not right"].append(key)
    return {what: keys for what, keys in kinds.items() if keys}
