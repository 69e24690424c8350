"""The ledger of serving runs: one point a method, load, seed and block, and what follows from them.

A point (see `make_point`) is a run of one method under one load. Points are compared only within
one ledger, and only where the load, the seed, the block and the requests are the same. A figure
that was not measured is null, and `missing` beside it says why; it is never zero.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from kernels.runtime import InputError
from lessons.lib.bench.arrivals import Arrivals, OpenLoop
from lessons.lib.bench.bootstrap import MIN_BLOCKS, ratio_interval
from lessons.lib.bench.driver import RunLog
from lessons.lib.bench.latency import RequestLog, Slo, summarise
from lessons.lib.bench.ledger import environment, read_ledger, write_ledger
from lessons.lib.bench.mixture import Recipe, Request, fingerprint
from lessons.lib.bench.run import BASELINE

SCHEMA = "specdec-serving/1"
UNTOLD = "the server does not report it"

# Figures whose ratio says how much faster a method is; the sign tells which way is better.
# Gaps between chunks (ITL) are not among them: they grow when a chunk carries more tokens.
METRICS = {
    "output_tokens_per_s": 1,
    "goodput_rps": 1,
    "tpot_ms.p50": -1,
    "ttft_ms.p50": -1,
    "ttft_ms.p99": -1,
    "e2e_ms.p50": -1,
}

Json = dict[str, Any]
Key = tuple[str, str, int, int]


@dataclass(frozen=True)
class Task:
    """What a point measures. A block is one turn of all methods on the same requests."""

    method: str
    arrivals: Arrivals
    seed: int
    block: int

    @property
    def key(self) -> Key:
        """The key of its point."""
        return self.method, load_name(describe_arrivals(self.arrivals)), self.seed, self.block


@dataclass(frozen=True)
class EngineFacts:
    """What only the server knows of a run; None where it does not tell.

    setup          how it ran: engine, model, dtype, graphs, batch limits. It must be the same for
                   a method and its baseline.
    acceptance     as metrics.Acceptance has it: survival, conditional, proposed; a list is None
                   where the server counts in total only
    phase_shares   of the time of all steps
    round_ms       means over the steps in which nobody prefilled (step_facts.round_means)
    prefill        of a request: prompt tokens, ms beside the forward (step_facts.prefill_means)
    memory_gb      weights, draft_kv, graphs, peak
    missing        why something is None, by dotted name ("memory_gb.graphs"); what is not explained
                   here is taken as not reported
    """

    setup: Json
    acceptance: Json | None = None
    acceptance_length: float | None = None
    phase_shares: dict[str, float] | None = None
    round_ms: dict[str, float] | None = None
    prefill: dict[str, float] | None = None
    verify_efficiency: float | None = None
    memory_gb: dict[str, float | None] | None = None
    preemptions: int | None = None
    missing: dict[str, str] = field(default_factory=dict)


def make_point(
    task: Task,
    recipe: Recipe,
    split: str,
    requests: Sequence[Request],
    run: RunLog,
    facts: EngineFacts,
    slo: Slo | None,
    num_warm_up: int,
) -> Json:
    """One run as plain data. num_warm_up requests went before, in a run that was thrown away."""
    engine = asdict(facts)
    engine_missing = engine.pop("missing")
    return {
        "method": task.method,
        "arrivals": describe_arrivals(task.arrivals),
        "seed": task.seed,
        "block": task.block,
        "workload": {
            "recipe": recipe.name,
            "source": "text",
            "split": split,
            "kinds": {
                part.kind: sum(r.kind == part.kind for r in requests) for part in recipe.parts
            },
            "num_requests": len(requests),
            "num_distinct": len({request.prompt for request in requests}),
            "fingerprint": fingerprint(requests),
        },
        "warm_up": {"num_requests": num_warm_up, "in_figures": False},
        "setup": engine.pop("setup"),
        "figures": summarise(run.requests, slo),
        "requests": {log.request_id: _felt(log) for log in run.requests},
        "validity": {
            "late_share": run.late_share(),
            "little_gap": run.little_gap(),
            "problems": run.problems(),
        },
        "counts_bonus": True,
        **engine,
        "missing": {key: UNTOLD for key in engine if engine[key] is None} | engine_missing,
    }


def _felt(log: RequestLog) -> Json:
    """Of one request, so that percentiles can be taken over all blocks of a load."""
    felt = {"ttft_ms": log.ttft_ms, "tpot_ms": log.tpot_ms, "e2e_ms": log.e2e_ms}
    counts = {"output_tokens": log.output_tokens, "num_chunks": len(log.chunks)}
    return felt | counts | {"error": log.error}


def describe_arrivals(arrivals: Arrivals) -> Json:
    """The load as data: equal for two runs exactly when they had the same load."""
    if isinstance(arrivals, OpenLoop):
        burstiness = None if arrivals.law == "constant" else arrivals.burstiness
        return {
            "loop": "open",
            "law": arrivals.law,
            "rate": arrivals.rate,
            "burstiness": burstiness,
        }
    return {"loop": "closed", "concurrency": arrivals.concurrency}


def load_name(arrivals: Json) -> str:
    """ "concurrency 4", "rate 2 poisson"."""
    if arrivals["loop"] == "closed":
        return f"concurrency {arrivals['concurrency']}"
    shape = f" {arrivals['burstiness']:g}" if arrivals["law"] == "gamma" else ""
    return f"rate {arrivals['rate']:g} {arrivals['law']}{shape}"


def point_key(point: Json) -> Key:
    """What a point is a measurement of; no ledger holds two points of one key."""
    return point["method"], load_name(point["arrivals"]), point["seed"], point["block"]


def figure(point: Json, name: str) -> float | None:
    """A figure by its dotted name, such as "tpot_ms.p50"; None where it is missing."""
    value: Any = point["figures"]
    for part in name.split("."):
        value = None if value is None else value[part]
    return value


def new_ledger(device: str, command: str, settings: Json) -> Json:
    """A ledger without points."""
    return environment(SCHEMA, device, command, settings) | {"points": []}


def load_ledger(path: Path) -> Json:
    """InputError when it is no ledger of this kind, or holds two points of one key."""
    ledger = read_ledger(path, SCHEMA, "points")
    counts = Counter(point_key(point) for point in ledger["points"])
    for key, count in counts.items():
        if count > 1:
            raise InputError(f"{path}: measured {count} times: {key}")
    return ledger


def append_point(ledger: Json, point: Json, path: Path) -> None:
    """Add a finished point and write the file, so that a kill loses at most the run under way."""
    ledger["points"].append(point)
    write_ledger(ledger, path)


def compare(points: Sequence[Json], metric: str) -> list[Json]:
    """Every method against target-only at the same load: ratio with interval, above 1 is better.

    Blocks pair up by seed and block and must have had the same requests. Invalid points are left
    out. A ratio without enough blocks is null with its reason.
    """
    if metric not in METRICS:
        raise InputError(f"cannot compare methods by {metric!r}; choose from {', '.join(METRICS)}")
    valid = [point for point in points if not point["validity"]["problems"]]
    rows = []
    by_load = sorted(valid, key=load_order)
    for load, group in groupby(by_load, key=lambda point: load_name(point["arrivals"])):
        here = list(group)
        for method in sorted({point["method"] for point in here} - {BASELINE}):
            rows.append(_comparison(here, method, metric) | {"load": load, "method": method})
    return rows


def load_order(point: Json) -> tuple[str, float, str]:
    """Sorts points by load: closed loops by concurrency, then open loops by rate."""
    arrivals = point["arrivals"]
    size = arrivals["concurrency"] if arrivals["loop"] == "closed" else arrivals["rate"]
    return arrivals["loop"], size, load_name(arrivals)


def paired_ratios(points: Sequence[Json], method: str, metric: str) -> list[float | None]:
    """Ratio to target-only in every block that has both; all points of one load. Above 1: better.

    None where a side has no figure or 0. InputError where a block pairs runs of other requests.
    """
    theirs = {(p["seed"], p["block"]): p for p in points if p["method"] == BASELINE}
    ratios: list[float | None] = []
    for point in (p for p in points if p["method"] == method):
        other = theirs.get((point["seed"], point["block"]))
        if other is None:
            continue
        if other["workload"]["fingerprint"] != point["workload"]["fingerprint"]:
            raise InputError(f"{point_key(point)}: its baseline had other requests")
        ours, base = figure(point, metric), figure(other, metric)
        if ours and base:  # neither missing nor 0
            ratios.append((ours / base) ** METRICS[metric])
        else:
            ratios.append(None)
    return ratios


def length_parity(points: Sequence[Json]) -> list[Json]:
    """Mean output tokens of every method and load beside target-only's on the same requests.

    error: standard error of the mean difference; sampled answers differ in length by chance.
    """
    found = {point_key(point): point for point in points}
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for (method, load, seed, block), point in found.items():
        base = found.get((BASELINE, load, seed, block))
        if method == BASELINE or base is None:
            continue
        ours, theirs = point["requests"], base["requests"]
        pairs.setdefault((method, load), []).extend(
            (ours[key]["output_tokens"], theirs[key]["output_tokens"])
            for key in ours
            if key in theirs
        )
    return [
        {
            "method": method,
            "load": load,
            "num_requests": len(lengths),
            "tokens": statistics.fmean(ours for ours, _ in lengths),
            "target_only_tokens": statistics.fmean(theirs for _, theirs in lengths),
            "error": statistics.pstdev(a - b for a, b in lengths) / len(lengths) ** 0.5,
            "same_share": statistics.fmean(a == b for a, b in lengths),
        }
        for (method, load), lengths in pairs.items()
        if lengths
    ]


def _comparison(points: Sequence[Json], method: str, metric: str) -> Json:
    """No block may drop out for being bad: one without a ratio leaves the load without one."""
    ratios = paired_ratios(points, method, metric)
    measured = [ratio for ratio in ratios if ratio is not None]
    row: Json = {
        "arrivals": points[0]["arrivals"],
        "metric": metric,
        "num_seeds": len({p["seed"] for p in points if p["method"] == method}),
        "num_blocks": len(ratios),
        "ratio": None,
        "missing": {},
    }
    if len(measured) < len(ratios):
        reason = f"{len(ratios) - len(measured)} of {len(ratios)} blocks have no {metric} above 0"
    elif len(ratios) < MIN_BLOCKS:
        reason = f"needs {MIN_BLOCKS} blocks measured on both sides, has {len(ratios)}"
    else:
        return row | {"ratio": asdict(ratio_interval(measured, [1.0] * len(measured)))}
    return row | {"missing": {"ratio": reason}}


def to_table(ledger: Json) -> pd.DataFrame:
    """One row a point with dotted column names, for pandas and csv; single requests left out."""
    rows = [{k: v for k, v in p.items() if k != "requests"} for p in ledger["points"]]
    return pd.json_normalize(rows)
