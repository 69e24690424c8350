"""Which source objects are right answers, read from course/source_map.yml."""

import functools
import re
from pathlib import Path
from typing import Any

import yaml

from autograder.checks.asking import BLANK, Rejected

SOURCE_MAP = Path(__file__).parents[2] / "course" / "source_map.yml"
KEYS = (
    "conditional_acceptance",
    "draft_ms",
    "verify_ms",
    "overhead_ms",
    "extra_memory_gb",
    "kv_rollback",
)
SEPARATORS = re.compile(r"[.:#/\\]+")


@functools.cache
def accepted_answers(path: Path = SOURCE_MAP) -> dict[str, set[str]]:
    """For each key the bare names of the right symbols. Raises Rejected (not_measured)."""
    accepted: dict[str, set[str]] = {key: set() for key in KEYS}
    try:
        for concept in yaml.safe_load(path.read_text(encoding="utf-8"))["concepts"]:
            for field in concept.get("answers_for", ()):
                if field not in accepted:
                    raise _unusable(path, f"{concept['id']} answers for unknown key {field!r}")
                accepted[field].add(bare_name(concept["symbol"]))
    except (OSError, yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _unusable(path, f"cannot be read ({type(error).__name__})") from error
    for key, names in accepted.items():
        if not names:
            raise _unusable(path, f"nothing answers for {key}")
    return accepted


def _unusable(path: Path, why: str) -> Rejected:
    return Rejected(f"{path.parent.name}/{path.name} {why}: not graded", "not_measured")


def bare_name(symbol: str) -> str:
    """The last component of a symbol: `Class.method`, `path.py::name` and `name()` alike."""
    text = symbol.strip().strip("`'\" ").removesuffix("()")
    return SEPARATORS.split(text)[-1]


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
    for key in KEYS:
        value = given.get(key)
        if key not in given:
            kinds["missing"].append(key)
        elif not isinstance(value, str) or not value.strip(" _") or BLANK in value:
            kinds["not filled in"].append(key)
        elif not is_one_name(value):
            kinds["not one name"].append(key)
        elif bare_name(value) not in accepted[key]:
            kinds["not right"].append(key)
    wrong = [f"{what}: {', '.join(keys)}" for what, keys in kinds.items() if keys]
    num_right = len(KEYS) - sum(map(len, kinds.values()))
    return num_right, f"{num_right} of {len(KEYS)} right; {'; '.join(wrong)}" if wrong else ""
