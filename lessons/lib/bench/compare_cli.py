"""Commands `compare`, `compare-all` and `compare-report`: methods beside target-only, in turns."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels.runtime import InputError
from lessons.lib.bench import pace
from lessons.lib.bench.cli import add_model, words
from lessons.lib.bench.compare_all import measure, open_ledger, shortened
from lessons.lib.bench.compare_plan import STAGES
from lessons.lib.bench.compare_report import report
from lessons.lib.bench.ledger import build_ledger, read_ledger, write_ledger
from lessons.lib.bench.methods import pacing_of
from lessons.lib.bench.run import MethodSpec, method_specs, run_interleaved
from lessons.lib.bench.step_profile import measure_profile
from lessons.lib.bench.workload import KINDS, SPLITS, load_prompts
from lessons.lib.config import SamplingParams
from lessons.lib.draft.registry import TARGET_ONLY, check_method, ready_methods
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model

_FREE = ("run", "arguments", "json", "stages", "kinds")  # may differ between runs of one ledger

Json = dict[str, Any]


def add_compare(parser: argparse.ArgumentParser) -> None:
    """What is measured in one interleaved run over all prompts."""
    parser.add_argument("--methods", type=words, default=ready_methods(), metavar="A,B")
    parser.add_argument("--draft", action="append", metavar="METHOD=PATH", default=[])
    parser.add_argument("--categories", type=words, default=["all"], metavar="A,B", help="or all")
    parser.add_argument("--depths", type=_depths, default=[2, 4, 8], metavar="2,4,auto")
    parser.add_argument(
        "--pacing",
        choices=[pace.COMPACT],
        help=f"measure {', '.join(pace.PLANNED)} also with its planner, at every depth",
    )
    parser.add_argument("--batch", type=int, default=1, metavar="B", help="prompts at a time")
    parser.add_argument("--repeats", type=int, default=1, metavar="R")
    parser.add_argument("--max-new-tokens", type=int, default=48, metavar="N")
    parser.add_argument("--split", default="main", help=" | ".join(SPLITS))
    parser.add_argument("--limit", type=int, metavar="N", help="prompts a category, default all")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    parser.add_argument("--json", required=True, type=Path, metavar="OUT", help="ledger to write")
    add_model(parser)
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(run=_compare)


def _depths(text: str) -> list[int | str]:
    try:
        return [word if word == pace.AUTO else int(word) for word in words(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"not whole numbers: {text!r}") from None


def _specs(
    methods: Sequence[str], depths: Sequence[int | str], pacing: str | None
) -> list[MethodSpec]:
    """Fixed depths first, then the adaptive one, then the planned: where they were asked for."""
    fixed = [depth for depth in depths if isinstance(depth, int)]
    specs = method_specs(methods, fixed)
    if pace.AUTO in depths:
        deepest = pace.adaptive_depth()[1]
        specs += [MethodSpec(m, deepest, is_adaptive=True) for m in methods if m != TARGET_ONLY]
    if pacing:
        planned = [method for method in methods if method in pace.PLANNED]
        if not planned or not fixed:
            raise InputError(f"--pacing plans {', '.join(pace.PLANNED)} at depths that are numbers")
        specs += [MethodSpec(m, depth, is_planned=True) for m in planned for depth in fixed]
    return specs


def _weights(text: str) -> tuple[str, Path]:
    method, separator, path = text.partition("=")
    if not separator or not path:
        raise InputError(f"--draft: give METHOD=PATH, not {text!r}")
    check_method(method, Path(path))
    return method, Path(path)


def _compare(options: argparse.Namespace) -> None:
    sampling = SamplingParams(options.temperature, seed=options.seed)
    specs = _specs(options.methods, options.depths, options.pacing)
    weights = dict(_weights(word) for word in options.draft)
    kinds = KINDS if options.categories == ["all"] else options.categories
    prompts = [
        prompt for kind in kinds for prompt in load_prompts(options.split, (kind,))[: options.limit]
    ]
    engine = Engine(*load_model(options.model, options.dtype, options.device))
    profile = measure_profile(engine, [options.batch], specs) if options.pacing else None
    runs = run_interleaved(
        engine,
        prompts,
        specs,
        options.repeats,
        options.max_new_tokens,
        sampling,
        weights=weights,
        batch=options.batch,
        pacing=lambda spec: pacing_of(spec, profile),
    )
    ledger = build_ledger(engine, runs, _command(options), _settings(options, ()))
    write_ledger(ledger, options.json)
    print(_table(ledger["results"]))


def _command(options: argparse.Namespace) -> str:
    return shlex.join(["python", "-m", "lessons.lib", *options.arguments])


def _settings(options: argparse.Namespace, without: Sequence[str]) -> Json:
    return {
        key: str(value) if isinstance(value, Path) else value
        for key, value in vars(options).items()
        if key not in ("run", "arguments", *without)
    }


def _table(rows: Sequence[Json]) -> str:
    """Rows of a ledger as fixed columns for a terminal."""
    lines = [f"{'category':<9} {'method':<10} {'ms/token':>9} {'speedup':>8} {'tokens/round':>12}"]
    for row in rows:
        time, speedup = row["ms_per_token"], row["speedup"]
        cells = [
            f"{time['median']:9.1f}" if time else f"{'-':>9}",
            f"{speedup['median']:8.2f}" if speedup else f"{'-':>8}",
            f"{row['acceptance_length']:12.2f}" if row["acceptance_length"] else f"{'-':>12}",
        ]
        lines.append(f"{row['category']:<9} {row['name']:<10} {' '.join(cells)}")
        lines += [f"  warning: {warning}" for warning in row["warnings"]]
    return "\n".join(lines)


def add_compare_all(parser: argparse.ArgumentParser) -> None:
    """Where the ledger lies, and what of the design is measured now."""
    names = [stage.name for stage in STAGES]
    parser.add_argument("--json", required=True, type=Path, metavar="OUT", help="goes on with it")
    parser.add_argument(
        "--stages", type=words, default=names, metavar="A,B", help=" | ".join(names)
    )
    parser.add_argument("--kinds", type=words, default=list(KINDS), metavar="A,B")
    parser.add_argument("--groups", type=int, metavar="N", help="batches of prompts a point")
    parser.add_argument("--max-new-tokens", type=int, metavar="N", help="default: as designed")
    add_model(parser)
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(run=_compare_all)


def _compare_all(options: argparse.Namespace) -> None:
    for what, asked, known in (
        ("stage", options.stages, [stage.name for stage in STAGES]),
        ("category", options.kinds, KINDS),
    ):
        for name in asked:
            if name not in known:
                raise InputError(f"unknown {what} {name!r}; choose from {', '.join(known)}")
    stages = [stage for stage in STAGES if stage.name in options.stages]
    engine = Engine(*load_model(options.model, options.dtype, options.device))
    settings = _settings(options, _FREE)
    ledger = open_ledger(options.json, engine.model.device.type, _command(options), settings)
    try:
        stages = shortened(stages, options.groups, options.max_new_tokens)
        measure(engine, ledger, options.json, stages, options.kinds, options.seed)
    except KeyboardInterrupt:
        raise InputError(
            f"stopped; {options.json} holds what was measured so far, and the same command goes on"
        ) from None
    print(report(ledger))


def add_compare_report(parser: argparse.ArgumentParser) -> None:
    """The ledger to read."""
    parser.add_argument("ledger", type=Path, help="ledger of compare-all (json)")
    parser.set_defaults(run=lambda options: print(report(_read(options.ledger))))


def _read(path: Path) -> Json:
    ledger = read_ledger(path)
    if "points" not in ledger:
        raise InputError(f"{path}: not of compare-all; measure with that command")
    return ledger
