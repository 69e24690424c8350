"""Ledgers of serving runs, as plain data: clean ones, planted faults, and every run held against
every other to find them. The names of faults are those of `lessons.lib.bench.audit`."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from lessons.lib.checks.asking import Rejected

FAULTS = (
    "baseline-differs",
    "different-requests",
    "failed-requests",
    "no-baseline",
    "repeated-prompts",
)
METHODS = ("baseline", "ngram-4", "eagle3-6")
ALARMS = {
    "baseline-differs": "only runs of one load and one block are a pair",
    "different-requests": "blocks and loads have their own requests; only a pair must share them",
    "failed-requests": "it asks for a request that failed",
    "no-baseline": "the baseline of a pair is that of the same load and block",
    "repeated-prompts": "it asks for fewer distinct prompts than requests",
}
Points = list[dict[str, Any]]


def draw_points(rng: random.Random) -> Points:
    """The runs of a clean ledger: every method at every load and block, in a drawn order.

    Loads have setups of their own, and blocks have requests of their own: only a pair shares them.
    """
    methods = METHODS[: rng.choice((2, 3))]
    points = []
    for load in rng.sample(("concurrency 1", "concurrency 8", "rate 2 poisson"), 2):
        setup = {"dtype": "bfloat16", "graphs": True, "max_running": rng.choice((8, 16, 32))}
        for block in range(rng.randint(2, 3)):
            count, mark = rng.randint(8, 40), f"{rng.getrandbits(64):016x}"
            for method in methods:
                points.append(
                    {
                        "method": method,
                        "load": load,
                        "block": block,
                        "setup": dict(setup),
                        "fingerprint": mark,
                        "num_requests": count,
                        "num_distinct": count,
                        "num_failed": 0,
                    }
                )
    rng.shuffle(points)
    return points


def plant(name: str, points: Points, rng: random.Random) -> None:
    """Put one fault into one run of a ledger."""
    point = rng.choice([one for one in points if one["method"] != "baseline"])
    if name == "no-baseline":
        place = (point["load"], point["block"])
        points[:] = [
            one
            for one in points
            if one["method"] != "baseline" or (one["load"], one["block"]) != place
        ]
    elif name == "baseline-differs":
        key = rng.choice(sorted(point["setup"]))
        point["setup"][key] = {"dtype": "float32", "graphs": False, "max_running": 64}[key]
    elif name == "different-requests":
        point["fingerprint"] = f"{rng.getrandbits(64):016x}"
    elif name == "repeated-prompts":
        rng.choice(points)["num_distinct"] -= rng.randint(1, 5)
    else:
        rng.choice(points)["num_failed"] += rng.randint(1, 3)


def judge_faults(got: Iterable[str], points: Points) -> None:
    """Raise Rejected, in words, unless these are the faults of the ledger."""
    right, found = faults_by_pairs(points), set(got)
    for name in FAULTS:
        if name in right and name not in found:
            raise Rejected(f"a ledger with the fault {name} was let through")
        if name in found and name not in right:
            raise Rejected(f"{name} is found in a ledger that does not have it: {ALARMS[name]}")


def faults_by_pairs(points: Points) -> set[str]:
    """Each run beside every other run."""
    found = set()
    for one in points:
        if one["num_distinct"] < one["num_requests"]:
            found.add("repeated-prompts")
        if one["num_failed"] > 0:
            found.add("failed-requests")
        is_paired = False
        for other in points:
            if (other["method"], other["load"], other["block"]) == (
                "baseline",
                one["load"],
                one["block"],
            ):
                is_paired = True
                if other["setup"] != one["setup"]:
                    found.add("baseline-differs")
                if other["fingerprint"] != one["fingerprint"]:
                    found.add("different-requests")
        if not is_paired:
            found.add("no-baseline")
    return found
