"""A measurement on disk: what ran, on what, from which commit, and the figures with their spread.

A figure that was not measured is null, and `missing` beside it says why; it is never zero.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from kernels.runtime import InputError
from lessons.lib import metrics
from lessons.lib.bench.machine import git_commit, machine, versions
from lessons.lib.bench.run import BASELINE, GB, MethodSpec, Run, ms_per_token, observed_conditional
from lessons.lib.draft.registry import TARGET_ONLY
from lessons.lib.engine import Engine

SCHEMA = "specdec-ledger/1"
ALL = "all"
_HEAD = ("schema", "created", "command", "settings", "machine", "versions", "commit")
_NOISE = 0.05  # of a time per token: no gain is doubted for less

Json = dict[str, Any]
Turn = tuple[str, str, int]  # kind, prompt, repeat


def build_ledger(engine: Engine, runs: Sequence[Run], command: str, settings: Json) -> Json:
    """Everything a reader needs to judge or repeat the runs.

    `settings` are the arguments that shaped them (seed, repeats, depths, dtype, model, ...).
    """
    head = environment(SCHEMA, engine.model.device.type, command, settings)
    return head | {"results": result_rows(runs)}


def environment(schema: str, device: str, command: str, settings: Json) -> Json:
    """Head of every ledger: what ran, when, on which machine, from which commit."""
    commit, reason = git_commit()
    return {
        "schema": schema,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "settings": settings,
        "machine": machine(device),
        "versions": versions(),
        "commit": commit,
        "missing": {"commit": reason} if reason else {},
    }


def result_rows(runs: Sequence[Run]) -> list[Json]:
    """One row a category and method, then the same over all categories together."""
    specs = sorted({run.spec for run in runs}, key=lambda s: (s.method != TARGET_ONLY, *_key(s)))
    kinds = list(dict.fromkeys(run.kind for run in runs))
    groups = [(kind, [run for run in runs if run.kind == kind]) for kind in kinds]
    if len(kinds) > 1:
        groups.append((ALL, list(runs)))
    return [result_row(kind, part, spec) for kind, part in groups for spec in specs]


def _key(spec: MethodSpec) -> tuple[str, int]:
    return spec.method, spec.depth


def result_row(category: str, runs: Sequence[Run], spec: MethodSpec) -> Json:
    """Figures of one method on one category.

    ms_per_token and speedup have median, p25 and p75 over runs; a run is one prompt in one repeat,
    and its speedup is target-only's ms per token on that prompt in that repeat over its own.
    phase_ms are means per round, shares their parts of the whole. acceptance is described in
    metrics.Acceptance. predicted_speedup is the cost model on the pooled figures: tokens per round
    times target-only's ms per token, over the ms of a round; residual is by how much of the median
    speedup it is too high. draft_passes: runs of the draft network, the rounds
    that proposed something, and the drafts they proposed.
    """
    mine = [run for run in runs if run.spec == spec]
    timed = [run for run in mine if run.rounds]
    rounds = [record for run in timed for record in run.rounds]
    reference = {_turn(run): run for run in runs if run.spec.name == BASELINE and run.rounds}
    speedups = [
        ms_per_token(reference[_turn(run)].rounds) / ms_per_token(run.rounds)
        for run in timed
        if _turn(run) in reference
    ]
    row: Json = {
        "category": category,
        "method": spec.method,
        "depth": spec.depth,
        "name": spec.name,
        "num_runs": len(mine),
        "num_rounds": len(rounds),
        "num_tokens": sum(record.emitted for record in rounds),
        "ms_per_token": spread([ms_per_token(run.rounds) for run in timed]),
        "speedup": spread(speedups),
        "predicted_speedup": _predicted_speedup(rounds, list(reference.values())),
        "residual": None,
        "acceptance": asdict(metrics.acceptance(rounds)),
        "conditional_acceptance": observed_conditional(rounds),
        "acceptance_length": metrics.acceptance_length(rounds),
        "phase_ms": _phase_means(rounds),
        "shares": None,
        "draft_passes": {
            "passes": sum(run.num_passes for run in mine),
            "rounds": sum(run.num_drafted for run in mine),
            "drafts": sum(run.num_drafts for run in mine),
        },
        "extra_memory_gb": max((run.extra_memory_bytes for run in mine), default=0) / GB,
    }
    if phases := row["phase_ms"]:
        row["shares"] = {name: phases[name] / phases["total"] for name in metrics.PHASES}
    if row["speedup"] and row["predicted_speedup"]:
        row["residual"] = row["predicted_speedup"] / row["speedup"]["median"] - 1
    return row | {"missing": _explain_nulls(row), "warnings": _warnings(timed, reference)}


def _turn(run: Run) -> Turn:
    return run.kind, run.prompt, run.repeat


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Median and quartiles; None for no values."""
    if not values:
        return None
    low, middle, high = np.percentile(values, [25, 50, 75])
    return {"median": float(middle), "p25": float(low), "p75": float(high)}


def _phase_means(rounds: Sequence[metrics.RoundRecord]) -> dict[str, float] | None:
    if not rounds:
        return None
    phases = (*metrics.PHASES, "total")
    return {p: statistics.fmean(getattr(record, f"{p}_ms") for record in rounds) for p in phases}


def _predicted_speedup(
    rounds: Sequence[metrics.RoundRecord], reference: Sequence[Run]
) -> float | None:
    baseline = [record for run in reference for record in run.rounds]
    if not rounds or not baseline:
        return None
    tokens = 1 + sum(metrics.acceptance(rounds).survival)
    round_ms = statistics.fmean(record.total_ms for record in rounds)
    return tokens * ms_per_token(baseline) / round_ms


def _explain_nulls(row: Json) -> dict[str, str]:
    reason = "no round: every answer ended with its first token"
    return {key: reason for key, value in row.items() if value is None}


def _warnings(mine: Sequence[Run], reference: Mapping[Turn, Run]) -> list[str]:
    """A round costs at least a decode step, so on one prompt a gain above its tokens per round is
    noise. Prompts are looked at one by one: a median over prompts may well exceed what rounds of
    all prompts yield on average."""
    suspects = []
    for (kind, prompt), runs in groupby(sorted(mine, key=_prompt_of), key=_prompt_of):
        pairs = [(run, reference[_turn(run)]) for run in runs if _turn(run) in reference]
        if not pairs or pairs[0][0].spec.name == BASELINE:
            continue
        gain = statistics.median(
            ms_per_token(base.rounds) / ms_per_token(run.rounds) for run, base in pairs
        )
        length = statistics.fmean(record.emitted for run, _ in pairs for record in run.rounds)
        if gain > (1 + _NOISE) * length:
            suspects.append(f"{kind}/{prompt} {gain:.2f} above {length:.2f}")
    if not suspects:
        return []
    told = ", ".join(suspects[:3]) + (", ..." if len(suspects) > 3 else "")
    return [
        f"speedup above tokens per round on {len(suspects)} prompts ({told}): "
        "the baseline was slowed by something else"
    ]


def _prompt_of(run: Run) -> tuple[str, str]:
    return run.kind, run.prompt


def check_same_conditions(found: Json, fresh: Json, path: Path) -> None:
    """InputError when the ledger at `path` was made by other code, on another machine or with other
    settings than a fresh one: figures of different conditions must not meet in one ledger."""
    for key in ("settings", "commit", "versions"):
        if found[key] != fresh[key]:
            raise InputError(f"{path} was measured with other {key}; give another file")
    for key in ("device", "cpu", "gpu", "num_threads"):
        if found["machine"][key] != fresh["machine"][key]:
            raise InputError(f"{path} was measured with another {key}; give another file")


def write_ledger(ledger: Json, path: Path) -> None:
    """Write aside and rename, so that a reader never sees half a ledger."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(ledger, indent=2, allow_nan=False)
        scratch.write_text(text + "\n", encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def read_ledger(path: Path, schema: str = SCHEMA, body: str = "results") -> Json:
    """A ledger from disk. InputError when it is absent, malformed or of another schema; `body` is
    the key under which ledgers of that schema keep their measurements."""
    try:
        ledger = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(ledger, dict) or ledger.get("schema") != schema:
        raise InputError(f"{path}: not a ledger of schema {schema}")
    for key in (*_HEAD, body):
        if key not in ledger:
            raise InputError(f"{path}: key {key!r} is missing; measure again")
    return ledger
