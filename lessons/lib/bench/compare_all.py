"""`compare-all`: every method of the course in one ledger, point by point, going on after a stop.

A point is a stage (see compare_plan) and a kind of prompt: all its methods take turns with
target-only in one run, and ratios are taken within it alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from lessons.lib.bench.compare_plan import (
    NOT_CROSSED,
    NOTES,
    STAGES,
    Stage,
    forecast,
    held_out_prompts,
    is_tree,
    stage_specs,
    step_times,
    sweep_specs,
)
from lessons.lib.bench.ledger import (
    SCHEMA,
    check_same_conditions,
    environment,
    read_ledger,
    result_row,
    write_ledger,
)
from lessons.lib.bench.methods import pacing_of
from lessons.lib.bench.run import BASELINE, run_interleaved
from lessons.lib.bench.step_profile import measure_profile
from lessons.lib.config import SamplingParams
from lessons.lib.cost_profile import StepProfile
from lessons.lib.engine import Engine

Json = dict[str, Any]
Row = dict[str, Any]


def open_ledger(path: Path, device: str, command: str, settings: Json) -> Json:
    """What is at `path`, to be gone on with, or an empty ledger. InputError where that was measured
    under other conditions."""
    fresh = environment(SCHEMA, device, command, settings) | {
        "design": [asdict(stage) for stage in STAGES],
        "not_crossed": NOT_CROSSED,
        "notes": NOTES,
        "points": [],
        "results": [],
    }
    fresh["missing"]["peak_memory_gb"] = (
        "methods take turns in one process, which keeps no peak of each; extra_memory_gb counts "
        "what speculation adds"
    )
    if not path.exists():
        return fresh
    found = read_ledger(path)
    check_same_conditions(found, fresh, path)
    return found


def measure(
    engine: Engine,
    ledger: Json,
    path: Path,
    stages: Sequence[Stage],
    kinds: Sequence[str],
    seed: int = 0,
    progress: bool = True,
) -> None:
    """Measure what the ledger lacks of these stages and kinds, and write it after each point."""
    if "profile" not in ledger:
        batches = [stage.batch for stage in STAGES]
        ledger["profile"] = measure_profile(engine, batches, sweep_specs())
        write_ledger(ledger, path)
    done = {(point["stage"], point["kind"]) for point in ledger["points"]}
    waiting = [
        (stage, kind) for stage in stages for kind in kinds if (stage.name, kind) not in done
    ]
    for number, (stage, kind) in enumerate(waiting, 1):
        if progress:
            print(f"point {number} of {len(waiting)}: {stage.name}, {kind}", flush=True)
        point, rows = _measure_point(engine, ledger, stage, kind, seed, progress)
        ledger["points"].append(point)
        ledger["results"] += rows
        write_ledger(ledger, path)


def _measure_point(
    engine: Engine, ledger: Json, stage: Stage, kind: str, seed: int, progress: bool
) -> tuple[Json, list[Row]]:
    started = perf_counter()
    specs = stage_specs(stage, ledger["results"], ledger["profile"])
    runs = run_interleaved(
        engine,
        held_out_prompts(kind, stage.batch * stage.num_groups),
        specs,
        max_new_tokens=stage.max_new_tokens,
        sampling=SamplingParams(stage.temperature, seed=seed),
        progress=progress,
        batch=stage.batch,
        pacing=partial(pacing_of, profile=ledger["profile"]),
    )
    times = step_times(ledger["profile"])
    rows = point_rows([result_row(kind, runs, spec) for spec in specs], stage, times)
    point = {
        "stage": stage.name,
        "kind": kind,
        "methods": [spec.name for spec in specs],
        "prompts": sorted({run.prompt for run in runs}),
        "seconds": perf_counter() - started,
        "load_average": list(os.getloadavg()),
    }
    return point, rows


def point_rows(rows: Sequence[Row], stage: Stage, profile: StepProfile | None) -> list[Row]:
    """Rows of a point, with what it was and what the model forecasts."""
    plain = next(row for row in rows if row["name"] == BASELINE)
    found = []
    for row in rows:
        guess = forecast((row, stage.batch), (plain, stage.batch), stage.batch, profile)
        extra: Row = {
            "stage": stage.name,
            "temperature": stage.temperature,
            "batch": stage.batch,
            "forecast_speedup": guess,
            "forecast_residual": None,
        }
        missing = dict(row["missing"])
        if guess is not None and row["speedup"]:
            extra["forecast_residual"] = guess / row["speedup"]["median"] - 1
        else:
            why = (
                "the rows of a tree are not told" if is_tree(row) else "no step times, or no round"
            )
            missing |= dict.fromkeys(("forecast_speedup", "forecast_residual"), why)
        found.append(row | extra | {"missing": missing})
    return found


def shortened(
    stages: Sequence[Stage], num_groups: int | None, max_new_tokens: int | None
) -> list[Stage]:
    """The same stages with less work, to try them."""
    return [
        replace(
            stage,
            num_groups=num_groups or stage.num_groups,
            max_new_tokens=max_new_tokens or stage.max_new_tokens,
        )
        for stage in stages
    ]
