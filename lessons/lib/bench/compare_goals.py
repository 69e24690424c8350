"""What the course hopes of its drafters, held against a compare-all ledger; and why where it fails.

A speedup is tokens per round times the ms of a plain step, over the ms of a round. Where a goal is
missed, the term that costs most is named: too few tokens, drafting, a dearer forward, or the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lessons.lib.bench.compare_plan import SWEEP
from lessons.lib.bench.run import BASELINE

SPEED_GOALS = {"json": 2.0, "copy": 2.0, "code": 1.5, "maths": 1.5}
ADAPTIVE_FLOOR = 0.97
ABOVE_LOOKUP = ("eagle3", "dflash")
LOOKUP_KINDS = ("maths", "code", "chat")

Row = dict[str, Any]


def goal_rows(rows: Sequence[Row]) -> list[Row]:
    """A row a goal: goal, kind, name (who came closest, or fell furthest), speedup, bar, is_met,
    why. A goal that was not measured is left out."""
    found = [_speed(rows, kind, bar) for kind, bar in SPEED_GOALS.items()]
    found += [_floor(rows, kind) for kind in dict.fromkeys(row["category"] for row in rows)]
    found += [_above(rows, method, kind) for method in ABOVE_LOOKUP for kind in LOOKUP_KINDS]
    return [row for row in found if row is not None]


def drafted(rows: Sequence[Row], stage: str, kind: str, method: str = "") -> list[Row]:
    """Rows of a stage and kind that have a speedup, of a method and its trees, the best first."""
    names = (method, f"{method}-tree") if method else None
    found = [
        row
        for row in rows
        if row["stage"] == stage
        and row["category"] == kind
        and row["name"] != BASELINE
        and row["speedup"]
        and (names is None or row["method"] in names)
    ]
    return sorted(found, key=_speedup, reverse=True)


def is_paced(row: Row) -> bool:
    """Whether a controller or a planner decides from step to step."""
    return bool(row["name"].endswith(("-auto", "-compact")))


def costliest(row: Row, plain: Row, bar: float) -> str:
    """The term that keeps a row below the bar. plain: target-only's row of the same point."""
    tokens, phases, base = row["acceptance_length"], row["phase_ms"], plain["phase_ms"]
    if tokens < bar:
        return f"acceptance: {tokens:.2f} tokens a round, so below {bar:g}x at any price"
    total = phases["total"]
    excess = {
        "draft": phases["draft"],
        "verify": phases["verify"] - base["verify"],
        "overhead": phases["overhead"] - base["overhead"],
    }
    term = max(excess, key=lambda name: excess[name])
    without = tokens * base["total"] / (total - excess[term])
    return (
        f"{term}: {excess[term]:.1f} of {total:.1f} ms beyond a plain step's "
        f"{base['total']:.1f}; {without:.2f}x without"
    )


def plain_row(rows: Sequence[Row], row: Row) -> Row:
    """Target-only's row of the same point."""
    here = (row["stage"], row["category"])
    return next(r for r in rows if r["name"] == BASELINE and (r["stage"], r["category"]) == here)


def _speed(rows: Sequence[Row], kind: str, bar: float) -> Row | None:
    best = drafted(rows, SWEEP, kind)
    return _judged(rows, f"at least {bar:g}x", best[0], bar) if best else None


def _floor(rows: Sequence[Row], kind: str) -> Row | None:
    stages = dict.fromkeys(row["stage"] for row in rows)
    paced = [r for stage in stages for r in drafted(rows, stage, kind) if is_paced(r)]
    if not paced:
        return None
    worst = min(paced, key=_speedup)
    goal = f"adaptive never below {ADAPTIVE_FLOOR:g}x"
    return _judged(rows, goal, worst, ADAPTIVE_FLOOR)


def _above(rows: Sequence[Row], method: str, kind: str) -> Row | None:
    ours, lookup = drafted(rows, SWEEP, kind, method), drafted(rows, SWEEP, kind, "ngram")
    if not ours or not lookup:
        return None
    bar = _speedup(lookup[0])
    return _judged(rows, f"{method} above {lookup[0]['name']}", ours[0], bar)


def _judged(rows: Sequence[Row], goal: str, row: Row, bar: float) -> Row:
    speedup = _speedup(row)
    is_met = speedup >= bar
    return {
        "goal": goal,
        "kind": row["category"],
        "stage": row["stage"],
        "name": row["name"],
        "speedup": speedup,
        "bar": bar,
        "is_met": is_met,
        "why": "" if is_met else costliest(row, plain_row(rows, row), bar),
    }


def _speedup(row: Row) -> float:
    return float(row["speedup"]["median"])
