"""What a compare-all ledger says, as text: the best method of each kind, goals, critical paths."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import pandas as pd

from lessons.lib.bench.compare_goals import drafted, goal_rows, is_paced
from lessons.lib.bench.predict import TOLERANCE
from lessons.lib.bench.run import BASELINE

Json = dict[str, Any]
Row = dict[str, Any]


def report(ledger: Json) -> str:
    """The whole report."""
    rows, machine = ledger["results"], ledger["machine"]
    seconds = sum(point["seconds"] for point in ledger["points"])
    head = [
        f"measured {ledger['created']} on {machine['gpu'] or machine['cpu']}, "
        f"{machine['num_threads']} threads; {len(ledger['points'])} points in {seconds:.0f} s",
        f"commit {ledger['commit']}; {ledger['command']}",
        *(f"not crossed: {what}: {why}" for what, why in ledger["not_crossed"].items()),
    ]
    parts = ["\n".join(head)]
    parts.append(_titled("Best method of each kind", best_table(rows)))
    parts.append(_titled("Goals", goal_table(rows)))
    parts.append(_titled("Adaptive modes, median speedup", paced_table(rows)))
    parts.append(_titled("Drafting of each method, all kinds", path_table(rows)))
    parts.append(forecast_line(rows))
    warnings = [f"{r['category']} {r['name']}: {w}" for r in rows for w in r["warnings"]]
    return "\n\n".join([*parts, *warnings])


def _titled(title: str, table: pd.DataFrame) -> str:
    return f"{title}\n{table.to_string(index=False) if len(table) else 'nothing was measured'}"


def best_table(rows: Sequence[Row]) -> pd.DataFrame:
    """The best method of every stage and kind, with spread and the model's figures."""
    found = []
    for stage, kind in dict.fromkeys((row["stage"], row["category"]) for row in rows):
        for row in drafted(rows, stage, kind)[:1]:
            speedup, shares = row["speedup"], row["shares"]
            found.append(
                {
                    "stage": stage,
                    "kind": kind,
                    "best": row["name"],
                    "speedup": f"{speedup['median']:.2f} "
                    f"[{speedup['p25']:.2f}, {speedup['p75']:.2f}]",
                    "tokens/round": f"{row['acceptance_length']:.2f}",
                    "draft/verify/rest": "/".join(f"{100 * s:.0f}" for s in shares.values()) + " %",
                    "predicted": f"{row['predicted_speedup']:.2f}",
                    "residual": f"{row['residual']:+.2f}",
                    "forecast": _number(row["forecast_speedup"]),
                }
            )
    return pd.DataFrame(found)


def goal_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Each goal: who came closest, whether it is met, and which term explains a miss."""
    return pd.DataFrame(
        {
            "goal": row["goal"],
            "kind": row["kind"],
            "measured": f"{row['name']} ({row['stage']}) {row['speedup']:.2f}",
            "met": "yes" if row["is_met"] else "no",
            "term of a miss": row["why"],
        }
        for row in goal_rows(rows)
    )


def paced_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Speedups of controllers and planners, a row a stage and kind; empty where not measured."""
    found = [
        {"stage": stage, "kind": kind}
        | {row["name"]: f"{row['speedup']['median']:.2f}" for row in paced}
        for stage, kind in dict.fromkeys((row["stage"], row["category"]) for row in rows)
        if (paced := [row for row in drafted(rows, stage, kind) if is_paced(row)])
    ]
    return pd.DataFrame(found).fillna("")


def path_rows(rows: Sequence[Row], stage: str = "depths") -> list[Row]:
    """Per method and depth, over all kinds of a stage: drafts and passes of the draft network in a
    round that drafts, and ms of drafting in any round, beside the ms of a plain step. Paced methods
    are left out."""
    found = []
    swept = [row for row in rows if row["stage"] == stage and row["phase_ms"]]
    plain = [row["phase_ms"]["total"] for row in swept if row["name"] == BASELINE]
    for name in dict.fromkeys(row["name"] for row in swept):
        mine = [row for row in swept if row["name"] == name]
        method, depth = mine[0]["method"], mine[0]["depth"]
        if name != f"{method}-{depth}":
            continue
        num_drafting = sum(row["draft_passes"]["rounds"] for row in mine)
        if not num_drafting:
            continue
        passes, drafts = (
            sum(row["draft_passes"][key] for row in mine) / num_drafting
            for key in ("passes", "drafts")
        )
        draft_ms = statistics.fmean(row["phase_ms"]["draft"] for row in mine)
        found.append(
            {
                "method": method,
                "depth": depth,
                "drafts": drafts,
                "passes": passes,
                "draft_ms": draft_ms,
                "plain_ms": statistics.fmean(plain),
            }
        )
    return found


def path_table(rows: Sequence[Row]) -> pd.DataFrame:
    """`path_rows` for the eye."""
    return pd.DataFrame(
        {
            "method": row["method"],
            "depth": row["depth"],
            "drafts/round": f"{row['drafts']:.2f}",
            "passes/round": f"{row['passes']:.2f}",
            "draft ms/round": f"{row['draft_ms']:.2f}",
            "of a plain step": f"{row['draft_ms'] / row['plain_ms']:.2f}",
        }
        for row in path_rows(rows)
    )


def forecast_line(rows: Sequence[Row]) -> str:
    """How far the model is off, with this run's own times and with step times measured apart."""
    parts = []
    for key in ("residual", "forecast_residual"):
        errors = [abs(r[key]) for r in rows if r["name"] != BASELINE and r[key] is not None]
        if errors:
            right = sum(error <= TOLERANCE for error in errors)
            parts.append(
                f"{key}: median {statistics.median(errors):.3f}, "
                f"{right} of {len(errors)} within {TOLERANCE:g}"
            )
    return "\n".join(parts)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
