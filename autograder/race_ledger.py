"""What the race of Lesson 8 measures for a right answer, which is what its bar rests on.

python -m autograder.race_ledger --json course/results/lesson08_race.json

Each run draws its own prompts. The same right answer races every time, and so does one that never
drafts, which must not pass.
"""

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from autograder.checks import figures, race
from autograder.sandbox.session import Cell, Sandbox, isolation_name
from lessons.lib.bench.ledger import environment

SCHEMA = "specdec-grader-race/1"
NEVER_DRAFTS = "def choose_spec_method(*arguments):\n    return 'baseline', 1.0\n"
KEPT = ("pairs", "speedup", "low", "high", "level", "baseline_ms", "student_ms")


def run(source: str, found: figures.Figures, seed: int) -> dict[str, Any]:
    """One race as a row, with the seconds that it took and the load before."""
    load, began = round(os.getloadavg()[0], 2), time.perf_counter()
    with Sandbox() as box:
        box.run_cells([Cell("answer", "exercise", source, ("choose_spec_method",))])
        decision = race.race(box, found, random.Random(seed))
        isolation = isolation_name(box.isolation)
    row = {"seed": seed, "verdict": decision.verdict, "reason": decision.reason, "load": load}
    row |= {"wall_s": round(time.perf_counter() - began, 1), "isolation": isolation}
    return row | {key: decision.values[key] for key in KEPT if key in decision.values}


def main() -> int:
    """Measure the methods, race, print, write the ledger."""
    parser = argparse.ArgumentParser(
        prog="python -m autograder.race_ledger", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--json", type=Path, required=True, help="the ledger to write")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    found = figures.measured()
    sources = {"right choice": race.right_choice(found).source, "never drafts": NEVER_DRAFTS}
    rows = []
    for seed in range(args.runs):
        for name, source in sources.items():
            rows.append({"answer": name, **run(source, found, seed)})
            print(f"{name:14} {rows[-1]['wall_s']:6.1f} s  {rows[-1]['reason']}", flush=True)
    command = f"python -m autograder.race_ledger --json {args.json} --runs {args.runs}"
    settings = {"bar": race.BAR, "tokens": race.NUM_TOKENS, "runs": args.runs}
    ledger = environment(SCHEMA, found.device.split()[0], command, settings)
    ledger["figures"] = {"device": found.device, "best": found.best()}
    ledger["results"] = rows
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(f"{json.dumps(ledger, indent=1)}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
