"""The parts of a report by which it can be doubted: output lengths and the cost model's errors."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes

from lessons.lib.bench.panel import Json, Panel, Points
from lessons.lib.bench.predict import TOLERANCE, TOLERATED_SHARE, is_validated
from lessons.lib.bench.run_ledger import length_parity


def length_parity_panel(points: Points) -> Panel:
    """Output of every method over target-only's on the same requests: what is said must not
    change, so neither may its length but by chance."""
    rows = [
        {
            "method": row["method"],
            "load": row["load"],
            "tokens": row["tokens"],
            "target_only": row["target_only_tokens"],
            "ratio": row["tokens"] / row["target_only_tokens"],
            "error": row["error"] / row["target_only_tokens"],
            "same_share": row["same_share"],
            "requests": row["num_requests"],
        }
        for row in length_parity(points)
        if row["target_only_tokens"]
    ]
    table = pd.DataFrame(rows)
    off = [abs(row["ratio"] - 1) for row in rows]
    note = (
        f"mean lengths differ by {max(off):.1%} at most; error is one standard error" if off else ""
    )

    def draw(axes: Axes, table: pd.DataFrame) -> None:
        for method, part in table.groupby("method"):
            axes.errorbar(part["ratio"], part["load"], xerr=part["error"], fmt="o", label=method)
        axes.axvline(1.0, color="black", linewidth=1)
        axes.set(xlabel="output tokens / target-only's on the same requests")

    return Panel("length-parity", "Output length against target-only", table, (note,), draw)


def predictions_panel(rows: Sequence[Json]) -> Panel:
    """The cost model's speedup beside the measured one."""
    table = pd.DataFrame(rows, columns=["method", "load", "measured", "predicted", "error"])
    near = (table["error"].abs() <= TOLERANCE).sum()
    note = (
        f"{near} of {len(table)} predictions lie within {TOLERANCE:.0%} of the measured speedup; "
        f"the model is to reach that for {TOLERATED_SHARE:.0%} of them, and does"
        + ("" if is_validated(rows) else " not")
    )

    def draw(axes: Axes, table: pd.DataFrame) -> None:
        for method, part in table.groupby("method"):
            axes.plot(part["measured"], part["predicted"], "o", label=str(method))
        limits = [0.0, 1.1 * float(table[["measured", "predicted"]].max().max())]
        axes.plot(limits, limits, "k--", linewidth=1)
        axes.set(xlabel="measured speedup", ylabel="predicted speedup")

    return Panel("predictions", "Predicted against measured speedup", table, (note,), draw)


def residuals_panel(rows: Sequence[Json]) -> Panel:
    """By how much predictions miss, over load: where the cost model misreads."""
    found = [{"method": r["method"], "load": r["load"], "error": r["error"]} for r in rows]
    table = pd.DataFrame(found, columns=["method", "load", "error"])
    worst = "" if table.empty else f"the largest miss is {table['error'].abs().max():.0%}"

    def draw(axes: Axes, table: pd.DataFrame) -> None:
        for method, part in table.groupby("method"):
            axes.plot(part["error"], part["load"], "o", label=str(method))
        for bound in (-TOLERANCE, 0.0, TOLERANCE):
            axes.axvline(bound, color="black", linestyle="--" if bound else "-", linewidth=1)
        axes.set(xlabel="predicted / measured - 1")

    return Panel("residuals", "Residuals of the predictions by load", table, (worst,), draw)
