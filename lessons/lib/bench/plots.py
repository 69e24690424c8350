"""Three pictures of a ledger. Each function returns a matplotlib Figure and shows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from lessons.lib import metrics
from lessons.lib.bench.run import BASELINE

Row = dict[str, Any]


def predicted_against_measured(rows: Sequence[Row]) -> Figure:
    """Scatter of the cost model's speedup over the measured one, a colour a category.

    rows: the ledger's `results`. Points on the dashed line are predicted exactly.
    """
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.add_subplot()
    shown = [row for row in _drafted(rows) if row["speedup"] and row["predicted_speedup"]]
    for category in _categories(shown):
        part = [row for row in shown if row["category"] == category]
        axes.scatter(
            [row["speedup"]["median"] for row in part],
            [row["predicted_speedup"] for row in part],
            label=category,
        )
    limit = 1.1 * max(
        (max(row["speedup"]["median"], row["predicted_speedup"]) for row in shown), default=1.0
    )
    axes.plot([0, limit], [0, limit], "k--", linewidth=1)
    axes.set(xlabel="measured speedup", ylabel="predicted speedup")
    _legend(figure)
    return figure


def survival_curves(rows: Sequence[Row], category: str) -> Figure:
    """Share of rounds in which drafts up to each position were accepted, a line a method."""
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.add_subplot()
    for row in _drafted(rows):
        if row["category"] == category:
            survival = [1.0, *row["acceptance"]["survival"]]
            axes.plot(range(len(survival)), survival, marker="o", label=row["name"])
    axes.set(xlabel="draft position", ylabel="survival", ylim=(0, 1.05), title=category)
    _legend(figure)
    return figure


def round_time_split(rows: Sequence[Row], category: str) -> Figure:
    """Mean milliseconds a round spends drafting, verifying and on the rest, a bar a method."""
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.add_subplot()
    shown = [row for row in rows if row["category"] == category and row["phase_ms"]]
    names = [row["name"] for row in shown]
    bottom = [0.0] * len(shown)
    for phase in metrics.PHASES:
        heights = [row["phase_ms"][phase] for row in shown]
        axes.bar(names, heights, bottom=bottom, label=phase)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set(ylabel="ms per round", title=category)
    axes.tick_params(axis="x", rotation=70)  # there are as many names as methods
    _legend(figure)
    return figure


def _drafted(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["name"] != BASELINE]


def _categories(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["category"] for row in rows))


def _legend(figure: Figure) -> None:
    for axes in figure.axes:
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
