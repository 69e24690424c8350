"""Which points `compare-all` measures: the whole cross product would take days, this does not.

Depths are swept for one request at a time, greedily. Everything else is measured at one depth a
method, which the sweep chooses. What is not crossed is told in the ledger.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernels.runtime import InputError
from lessons.lib.bench.pace import adaptive_depth
from lessons.lib.bench.predict import verify_ms
from lessons.lib.bench.run import BASELINE, MethodSpec
from lessons.lib.bench.step_profile import beside_growth
from lessons.lib.bench.workload import Prompt, load_prompts
from lessons.lib.cost_profile import StepProfile
from lessons.lib.draft.registry import TARGET_ONLY
from lessons.lib.metrics import Acceptance

SWEEP = "depths"
METHODS = ("ngram", "standalone", "eagle3", "mtp", "frozen_kv_mtp", "dflash", "dspark")
CHAINS = METHODS[:5]  # whose drafting a controller can shorten
CONTROLLED = ("ngram", "eagle3")  # of them, those with a controller beyond the sweep
DEPTHS = (2, 4, 7)
LOOKUP_DEPTHS = (4, 8, 16)  # a lookup costs the same at any depth
TREES = (MethodSpec("ngram-tree", 8), MethodSpec("eagle3-tree", 8))
PLANNED = MethodSpec("dspark", 7, is_planned=True)

Json = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """Points of all kinds under one condition. num_groups: batches of prompts of a kind."""

    name: str
    temperature: float
    batch: int
    num_groups: int
    max_new_tokens: int


STAGES = (
    Stage(SWEEP, 0.0, 1, 3, 40),
    Stage("temperature", 0.8, 1, 3, 40),
    Stage("batch-4", 0.0, 4, 2, 64),
    Stage("batch-8", 0.0, 8, 2, 64),
)

NOT_CROSSED = {
    "depths": "swept at batch 1 and temperature 0 only; elsewhere each method has one depth, that "
    "of the highest speedup which the cost model forecasts for the batch from the sweep",
    "temperature x batch": "batches 4 and 8 are measured at temperature 0 only",
    "controllers": f"beyond the sweep for {' and '.join(CONTROLLED)} only",
    "trees": "at one size, batch 1 and temperature 0 only",
    "prompts": "a batch of 8 takes held-out prompts of both splits, a batch of 1 or 4 begins with "
    "those written by hand; no figure is compared between batches but as a speedup",
}
NOTES = {
    "batch": "requests draft together and are verified together: what a network computes row by "
    "row it computes once for all, attention for each. Times of a round are its share of its step, "
    "so they are those of one request",
    "pacing": "a controller or planner goes on from prompt to prompt of a point, as in an engine "
    "that serves such prompts; it begins each point without any knowledge, and that is included",
    "draft_passes": "rounds counts those with a draft to verify; a planned method also drafts in "
    "rounds that then verify nothing",
    "forecast_speedup": "the cost model with step times measured apart (profile), so that it does "
    "not know how long verification took here; predicted_speedup knows",
}


def sweep_specs() -> list[MethodSpec]:
    """Target-only, every method at every depth, trees, controllers and the planner."""
    fixed = [
        MethodSpec(method, depth)
        for method in METHODS
        for depth in (LOOKUP_DEPTHS if method == "ngram" else DEPTHS)
    ]
    controlled = [_controlled(method) for method in CHAINS]
    return [MethodSpec(TARGET_ONLY, 0), *fixed, *TREES, *controlled, PLANNED]


def stage_specs(stage: Stage, rows: Sequence[Row], profile: Json) -> list[MethodSpec]:
    """What a stage measures. rows: the ledger's so far, which must hold the sweep of all kinds that
    are to be measured. profile: as `measure_profile` gives it; without times nothing is planned."""
    specs = sweep_specs()
    if stage.name != SWEEP:
        swept = [row for row in rows if row["stage"] == SWEEP]
        chosen = [
            MethodSpec(method, best_depth(swept, method, stage.batch, profile))
            for method in METHODS
        ]
        controlled = [_controlled(method) for method in CONTROLLED]
        specs = [MethodSpec(TARGET_ONLY, 0), *chosen, *controlled, PLANNED]
    return [spec for spec in specs if profile["times_ms"] or not spec.is_planned]


def _controlled(method: str) -> MethodSpec:
    return MethodSpec(method, adaptive_depth()[1], is_adaptive=True)


def best_depth(rows: Sequence[Row], method: str, batch: int, profile: Json) -> int:
    """The swept depth with the highest speedup at this batch, by geometric mean over the kinds: as
    forecast, or without step times as measured. rows: swept with one request at a time. InputError
    where nothing was swept."""
    plain = {row["category"]: row for row in rows if row["name"] == BASELINE}
    speedups: dict[int, list[float]] = {}
    times = step_times(profile)
    for row in rows:
        if row["name"] != f"{method}-{row['depth']}":
            continue  # another method, or one that is paced
        theirs = plain[row["category"]]
        mine_grown, theirs_grown = (
            (r, beside_growth(profile, r["name"], 1, batch)) for r in (row, theirs)
        )
        found = forecast(mine_grown, theirs_grown, batch, times)
        if found is None and row["speedup"]:
            found = row["speedup"]["median"]
        if found is not None:
            speedups.setdefault(row["depth"], []).append(found)
    if not speedups:
        raise InputError(f"{method}: no depth was swept; measure the stage {SWEEP!r} first")
    return max(speedups, key=lambda depth: statistics.geometric_mean(speedups[depth]))


def step_times(profile: Json) -> StepProfile | None:
    """The step times of a profile; None where none could be measured."""
    return StepProfile.from_ledger(profile) if profile["times_ms"] else None


Grown = tuple[Row, float]  # a row, and how often a step of the batch takes what its round takes


def forecast(mine: Grown, theirs: Grown, batch: int, profile: StepProfile | None) -> float | None:
    """The speedup at a batch by a row's acceptance and what its rounds took beside the forward;
    verification by the profile. Both with their factor: the batch itself, where the row was
    measured at that batch. theirs: target-only's row. None without times."""
    (row, growth), (plain, plain_growth) = mine, theirs
    if profile is None or not row["phase_ms"] or not plain["phase_ms"] or is_tree(row):
        return None
    phases, accepted = row["phase_ms"], Acceptance(**row["acceptance"])
    beside = growth * (phases["draft"] + phases["overhead"])
    round_ms = verify_ms(accepted, batch, profile) + beside
    plain_ms = profile.step_ms(batch, 1) + plain_growth * plain["phase_ms"]["overhead"]
    return (1 + sum(accepted.survival)) * plain_ms / round_ms


def is_tree(row: Row) -> bool:
    """Whether more rows are verified than acceptance has positions."""
    return bool(row["method"].endswith("-tree"))


def held_out_prompts(kind: str, count: int) -> list[Prompt]:
    """Prompts of a kind, those written by hand first. InputError where there are not so many."""
    prompts = load_prompts("heldout", (kind,)) + load_prompts("sweep", (kind,))
    if not 1 <= count <= len(prompts):
        raise InputError(f"{count} prompts of {kind}: there are 1 to {len(prompts)}")
    return prompts[:count]
