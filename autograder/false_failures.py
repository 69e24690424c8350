"""Does a right answer ever fail? Grade all of them many times while every core is busy.

python -m autograder.false_failures --json course/results/grader_false_failures.json

Every right variant of every unit is judged in a fresh worker, with a seed of its own each time,
beside one endless loop for each core. Checks that run the model are left out unless --with-model
says otherwise, since they take minutes. Ends with status 1 if one failed, or if more than 2 % of
the gradings left a check undecided. A run that was stopped goes on.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder.attacks.arena import FIGURES
from autograder.checks.figures import Figures, measured
from autograder.fill_ins import FillIn, fill_ins, judged
from autograder.judge import slow_checks, units
from autograder.kept import Kept
from autograder.sandbox.launcher import Limits
from autograder.sandbox.session import find_isolation, isolation_name
from lessons.lib.bench.ledger import environment

SCHEMA = "specdec-false-failures/1"
MAX_UNDECIDED = 0.02
BUSY = "while True: pass"

Counts = dict[str, int]


@contextlib.contextmanager
def busy_cores(number: int) -> Iterator[None]:
    """An endless loop for each core, for as long as this lasts."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def graded(item: FillIn, seed: int, with_model: bool) -> str:
    """What one grading of a right answer came to: the worst of its verdicts."""
    skip = frozenset() if with_model else slow_checks(item.unit)
    (verdicts,) = judged(item.unit, item.text, (seed,), Limits(), figures_of(with_model), skip)
    names = {verdict.verdict for verdict in verdicts}
    for name in ("fail", "invalid", "inconclusive", "not_measured"):
        if name in names:
            return name
    return "pass"


def figures_of(with_model: bool) -> Any:
    """The figures that a live check of the cost model is judged on."""
    return measured if with_model else made_up


def made_up() -> Figures:
    return FIGURES


def measure(items: Sequence[FillIn], times: int, with_model: bool, kept: Kept) -> dict[str, Counts]:
    """The outcomes of each answer by how often they came."""
    found = {}
    for item in items:
        name, counts = f"{item.unit} {item.name}", Counter[str]()
        for seed in range(times):
            key = f"{name} {seed} {with_model}\n{item.text}"
            counts[kept.or_now(key, lambda i=item, s=seed: graded(i, s, with_model))] += 1  # type: ignore[misc]
        print(f"{name:44} {dict(counts)}", flush=True)
        found[name] = dict(counts)
    return found


def summary(found: dict[str, Counts]) -> dict[str, Any]:
    """How many gradings, how many false failures, and which part was left undecided."""
    total = sum((Counter(counts) for counts in found.values()), Counter[str]())
    num = total.total()
    undecided = total["inconclusive"] + total["not_measured"]
    return {
        "gradings": num,
        "false_failures": total["fail"] + total["invalid"],
        "undecided": undecided / num if num else None,
    }


def is_trusted(result: dict[str, Any]) -> bool:
    """No right answer failed, and hardly any was left undecided."""
    return (
        result["gradings"] > 0
        and not result["false_failures"]
        and (result["undecided"] <= MAX_UNDECIDED)
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Grade, print and write the ledger."""
    parser = argparse.ArgumentParser(prog="python -m autograder.false_failures")
    parser.add_argument("--json", type=Path, required=True, help="the ledger to write")
    parser.add_argument("--times", type=int, default=100, help="gradings of each right answer")
    parser.add_argument("--units", nargs="+", default=units())
    parser.add_argument("--with-model", action="store_true", help="also checks that run the model")
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1, help="endless loops")
    args = parser.parse_args(argv)
    items = [item for unit in args.units for item in fill_ins(unit) if item.kind == "right"]
    kept = Kept(args.json)
    with busy_cores(args.busy):
        found = measure(items, args.times, args.with_model, kept)
    result = summary(found)
    settings = {"times": args.times, "units": args.units, "busy": args.busy}
    settings |= {"with_model": args.with_model, "isolation": isolation_name(find_isolation())}
    command = f"python -m autograder.false_failures --json {args.json} --times {args.times}"
    command += " --with-model" if args.with_model else ""
    ledger = environment(SCHEMA, "cpu", command, settings) | {"summary": result, "results": found}
    args.json.write_text(f"{json.dumps(ledger, indent=1)}\n", encoding="utf-8")
    kept.done()
    print(
        f"{result['gradings']} gradings, {result['false_failures']} false failures, undecided:"
        f" {result['undecided']:.1%}"
    )
    return int(not is_trusted(result))


if __name__ == "__main__":
    sys.exit(main())
