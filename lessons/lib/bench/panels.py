"""The parts of a report on a serving ledger: each a table and a picture of the same figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from lessons.lib.bench.bootstrap import MIN_BLOCKS, crossing
from lessons.lib.bench.latency import spread
from lessons.lib.bench.panel import Json, Panel, Points
from lessons.lib.bench.panels_checked import (
    length_parity_panel,
    predictions_panel,
    residuals_panel,
)
from lessons.lib.bench.run import BASELINE
from lessons.lib.bench.run_ledger import (
    compare,
    figure,
    load_name,
    load_order,
    paired_ratios,
)

KNEE_SHARE = 0.9  # of the requests are good up to the knee
TAILS = ("ttft_ms", "tpot_ms", "e2e_ms")
_AXES = {"concurrency": "concurrency [users]", "rate": "rate [requests/s]"}


def panels(ledger: Json) -> list[Panel]:
    """All panels of a ledger, in reading order."""
    points = sorted(
        valid_points(ledger), key=lambda p: (load_order(p), p["method"] != BASELINE, p["method"])
    )
    return [
        _speedup(_in_loop(points, "closed"), "concurrency", "output_tokens_per_s"),
        _speedup(_in_loop(points, "open"), "rate", "tpot_ms.p50"),
        _goodput(_in_loop(points, "open")),
        *(_tail(points, name) for name in TAILS),
        _composition(points),
        length_parity_panel(points),
        predictions_panel(ledger.get("predictions", [])),
        residuals_panel(ledger.get("predictions", [])),
    ]


def _speedup(points: Points, axis: str, metric: str) -> Panel:
    """Ratio to target-only over load, and where it crosses 1.0."""
    rows = [
        {
            "method": row["method"],
            axis: row["arrivals"][axis],
            "speedup": row["ratio"]["estimate"] if row["ratio"] else None,
            "low": row["ratio"]["low"] if row["ratio"] else None,
            "high": row["ratio"]["high"] if row["ratio"] else None,
            "blocks": row["num_blocks"],
        }
        for row in compare(points, metric)
    ]
    table = pd.DataFrame(rows)
    if rows:
        table = table.astype({"speedup": float, "low": float, "high": float})  # None becomes NaN
    notes = tuple(
        f"{method}: {_crossing_note(points, method, axis, metric)}" for method in _drafted(points)
    )

    def draw(axes: Axes, table: pd.DataFrame) -> None:
        for method, part in table.groupby("method"):
            axes.plot(part[axis], part["speedup"], marker="o", label=str(method))
            axes.fill_between(part[axis], part["low"], part["high"], alpha=0.1)
        axes.axhline(1.0, color="black", linestyle="--", linewidth=1)
        axes.set(xlabel=_AXES[axis], ylabel="speedup", xscale="log")
        _mark_loads(axes, table[axis])

    return Panel(f"speedup-{axis}", f"Speedup ({metric}) against {axis}", table, notes, draw)


def _mark_loads(axes: Axes, loads: pd.Series) -> None:
    """Ticks where something was measured, on an axis of powers of two as a rule."""
    measured = sorted(set(loads))
    axes.set_xticks(measured, [f"{load:g}" for load in measured])
    axes.set_xlim(measured[0] / 1.2, measured[-1] * 1.2)
    axes.minorticks_off()


def _crossing_note(points: Points, method: str, axis: str, metric: str) -> str:
    loads = sorted({point["arrivals"][axis] for point in points})
    ratios = {
        load: paired_ratios([p for p in points if p["arrivals"][axis] == load], method, metric)
        for load in loads
    }
    measured = {load: [r for r in found if r is not None] for load, found in ratios.items()}
    gaps = [load for load in loads if len(measured[load]) < max(MIN_BLOCKS, len(ratios[load]))]
    if gaps:
        return f"no crossing can be told: too few blocks at {', '.join(map(str, gaps))}"
    if len(loads) < 2:
        return "no crossing can be told from one load"
    return crossing(measured).describe()


def _goodput(points: Points) -> Panel:
    """SLO goodput over rate, and the knee."""
    rows = []
    for (method, rate), group in _grouped(points, lambda point: point["arrivals"]["rate"]).items():
        goodput = [figure(point, "goodput_rps") for point in group]
        if any(value is None for value in goodput):
            continue  # no SLO was stated
        requests = sum(point["figures"]["num_requests"] for point in group)
        good = sum(point["figures"]["num_good"] for point in group)
        rows.append(
            {
                "method": method,
                "rate": rate,
                "goodput_rps": pd.Series(goodput).mean(),
                "good_share": good / requests,
                "blocks": len(group),
            }
        )
    table = pd.DataFrame(rows)
    notes = tuple(
        f"{method}: {_knee_note(part)}"
        for method, part in (table.groupby("method") if rows else ())
    )
    notes = (*_slo_notes(points), *notes)

    def draw(axes: Axes, table: pd.DataFrame) -> None:
        for method, part in table.groupby("method"):
            axes.plot(part["rate"], part["goodput_rps"], marker="o", label=str(method))
        axes.plot(table["rate"], table["rate"], "k--", linewidth=1, label="all requests good")
        axes.set(xlabel="rate [requests/s]", ylabel="SLO goodput [requests/s]")

    return Panel("goodput", "SLO goodput against rate", table, notes, draw)


def _slo_notes(points: Points) -> list[str]:
    """What a good request is, once for each SLO that was stated."""
    stated = [point["figures"]["slo"] or {} for point in points]
    limits = [
        ", ".join(f"{name.removesuffix('_ms')} {ms:g} ms" for name, ms in slo.items() if ms)
        for slo in stated
    ]
    return [f"a good request keeps within {text}" for text in dict.fromkeys(limits) if text]


def _knee_note(part: pd.DataFrame) -> str:
    knee = None
    for rate, share in zip(part["rate"], part["good_share"], strict=True):
        if share < KNEE_SHARE:
            break
        knee = rate
    if knee is None:
        return f"fewer than {KNEE_SHARE:.0%} of requests are good at the lowest rate already"
    if knee == part["rate"].max():
        return f"no knee was found up to rate {knee:g}"
    return f"the knee is at rate {knee:g}: beyond it fewer than {KNEE_SHARE:.0%} are good"


def _tail(points: Points, name: str) -> Panel:
    """Median and 99th percentile over the requests of all blocks of a load."""
    rows = []
    for (method, load), group in _grouped(points, _load).items():
        felt = [r for point in group for r in point["requests"].values() if r["error"] is None]
        values = [request[name] for request in felt if request[name] is not None]
        row = spread(values, name, {}) or {"p50": None, "p99": None}
        rows.append({"method": method, "load": load, "p50": row["p50"], "p99": row["p99"]})
        rows[-1]["requests"] = len(values)
    table = pd.DataFrame(rows)
    has_gaps = bool(rows) and table["p99"].isna().any()
    notes = ("p99 needs 100 requests at a load",) if has_gaps else ()

    def draw(axes: Axes, table: pd.DataFrame) -> None:
        for method, part in table.groupby("method"):
            (dots,) = axes.plot(part["p50"], part["load"], "o", label=str(method))
            axes.plot(part["p99"].astype(float), part["load"], "^", color=dots.get_color())
        axes.set(xlabel="ms: a dot is the median, a triangle the 99th percentile")
        axes.grid(axis="y")

    title = name.removesuffix("_ms").replace("e2e", "end to end")
    return Panel(name.removesuffix("_ms"), f"{title} [ms] by load", table, notes, draw)


def _composition(points: Points) -> Panel:
    """Mean share of each phase in the time of the engine's steps."""
    rows = []
    for (method, load), group in _grouped(points, _load).items():
        shares = [point["phase_shares"] for point in group if point["phase_shares"]]
        if shares:
            rows.append({"method": method, "load": load, **pd.DataFrame(shares).mean().to_dict()})
    table = pd.DataFrame(rows)

    def draw(axes: Axes, table: pd.DataFrame) -> None:
        names = [f"{m}, {load}" for m, load in zip(table["method"], table["load"], strict=True)]
        bottom = pd.Series(0.0, index=table.index)
        for phase in table.columns[2:]:
            axes.barh(names, table[phase], left=bottom, label=str(phase))
            bottom += table[phase]
        axes.set(xlabel="share of step time")
        axes.invert_yaxis()  # in the order of the table
        axes.margins(y=0.01)

    return Panel("composition", "Where the time of a step goes", table, (), draw)


def valid_points(ledger: Json) -> list[Json]:
    """The points whose figures may be used."""
    return [point for point in ledger["points"] if not point["validity"]["problems"]]


def _in_loop(points: Points, loop: str) -> list[Json]:
    return [point for point in points if point["arrivals"]["loop"] == loop]


def _load(point: Json) -> str:
    return load_name(point["arrivals"])


def _drafted(points: Points) -> list[str]:
    ours = {point["method"] for point in points if not point["setup"].get("is_peer")}
    return sorted(ours - {BASELINE})


def _grouped(points: Points, load_of: Callable[[Json], Any]) -> dict[tuple[str, Any], list[Json]]:
    groups: dict[tuple[str, Any], list[Json]] = {}
    for point in points:
        groups.setdefault((point["method"], load_of(point)), []).append(point)
    return groups
