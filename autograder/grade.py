"""`python -m autograder grade NOTEBOOK [--seed S] [--json]`: judge one notebook and print it."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder import handed_in
from autograder.judge import UNIT, checks_of, judge, units
from autograder.seed import grader_seed
from autograder.verdict import Judgement


class GradeError(ValueError):
    """The command cannot be carried out; one line that names the file and what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the judgement of one notebook. Raises GradeError, SeedError or JudgeError."""
    parser = argparse.ArgumentParser(prog="python -m autograder grade", description=__doc__)
    parser.add_argument("notebook", type=Path, help="a submitted or released .ipynb file")
    parser.add_argument("--seed", help="secret seed; else GRADER_SEED or the classroom's file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(argv)
    seed = grader_seed(options.seed)
    submitted = read_notebook(options.notebook)
    unit = unit_of(submitted, options.notebook)
    judgement = judge(submitted, unit, seed)
    if options.json:
        print(json.dumps(judgement.to_json(), ensure_ascii=False))
    else:
        print(as_table(judgement))
    for message in judgement.messages:
        print(f"note: {message}", file=sys.stderr)
    return 0


def read_notebook(path: Path) -> dict[str, Any]:
    """The notebook as JSON data. Raises GradeError."""
    try:
        return handed_in.read(path.read_bytes())
    except OSError as error:
        raise GradeError(
            f"{path}: cannot be read ({error.strerror}); give an .ipynb file"
        ) from None
    except handed_in.Unreadable as error:
        raise GradeError(f"{path}: {error}") from None


def unit_of(submitted: dict[str, Any], path: Path) -> str:
    """The unit from the notebook's metadata, else from its file or folder name."""
    metadata = submitted.get("metadata")
    course = metadata.get("course") if isinstance(metadata, dict) else None
    unit = course.get("unit") if isinstance(course, dict) else None
    if isinstance(unit, str) and unit in units():
        return unit
    for name in (path.stem, path.resolve().parent.name):
        found = UNIT.search(name)
        if found:
            checks_of(found[0])
            return found[0]
    raise GradeError(
        f"{path}: which unit is this? Name the file like the unit ({', '.join(units())})"
    )


def as_table(judgement: Judgement) -> str:
    """The judgement as text, one line a check."""
    rows = [
        (check.id, check.verdict, f"{check.points:g}/{check.max:g}", check.reason)
        for check in judgement.checks
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(row[c].ljust(widths[c]) for c in range(3)), row[3]]).rstrip() for row in rows
    ]
    total = f"total {judgement.total:g} of {judgement.max:g}"
    return "\n".join([f"{judgement.unit}  isolation: {judgement.isolation}", *lines, total])
