"""`bench-engine`: what the engine costs in every dtype, part by part, into one ledger.

The ledger is written after every part; the same command again goes on with what is missing.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kernels.runtime import DEVICES, DTYPES, InputError
from lessons.lib.bench import engine_machine, engine_speed
from lessons.lib.bench.engine_speed import Bench
from lessons.lib.bench.ledger import environment, read_ledger, write_ledger
from lessons.lib.bench.machine import openmp_settings
from lessons.lib.bench.workload import load_prompts
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model

SCHEMA = "specdec-engine/1"
PROMPT_KINDS = ("maths", "code", "chat")  # the first prompt of each: greedy decoding costs the same
PARTS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "decode": engine_speed.decode,
    "verify": engine_speed.verify,
    "share": engine_speed.share,
    "batch": engine_speed.batch,
    "openmp": engine_machine.openmp,
    "kernels": engine_machine.kernels,
    "graphs": engine_machine.graphs,
}
_FREE = ("parts", "dtypes", "json")  # may differ between the runs that fill one ledger

Json = dict[str, Any]


def add_bench_engine(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("--json", required=True, type=Path, metavar="OUT", help="ledger to write")
    parser.add_argument("--parts", default=",".join(PARTS), metavar="A,B", help=" | ".join(PARTS))
    parser.add_argument("--dtypes", default="bfloat16,float32", metavar="A,B")
    parser.add_argument("--repeats", type=int, default=5, metavar="R")
    parser.add_argument("--max-new-tokens", type=int, default=32, metavar="N")
    parser.add_argument("--model", metavar="PATH", help="GGUF file or Hugging Face folder")
    parser.add_argument("--device", default="auto", help=" | ".join(DEVICES))
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(run=_bench_engine)


def _bench_engine(options: argparse.Namespace) -> None:
    parts, dtypes = _chosen("part", options.parts, PARTS), _chosen("dtype", options.dtypes, DTYPES)
    if options.repeats < 1 or options.max_new_tokens < 2:
        raise InputError("give at least one repeat and two new tokens")
    prompts = [load_prompts(kinds=(kind,))[0] for kind in PROMPT_KINDS]
    path, ledger = Path(options.model) if options.model else None, None
    for dtype in dtypes:
        engine = Engine(*load_model(path, dtype, options.device))
        ledger = ledger or _open_ledger(options, engine.model.device.type)
        bench = Bench(engine, prompts, path, dtype, options.repeats, options.max_new_tokens)
        done = ledger["results"].setdefault(dtype, {})
        for part in parts:
            if part not in done:
                done[part] = PARTS[part](bench)
                write_ledger(ledger, options.json)
    print(table(ledger or {"results": {}}))


def _chosen(what: str, text: str, known: Iterable[str]) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise InputError(f"unknown {what} {name!r}; choose from {', '.join(known)}")
    if not names:
        raise InputError(f"no {what} is left; choose from {', '.join(known)}")
    return names


def _open_ledger(options: argparse.Namespace, device: str) -> Json:
    """What --json holds, to be gone on with, or a new ledger. InputError where what is there was
    measured otherwise: its figures may not be mixed with these."""
    command = shlex.join(["python", "-m", "lessons.lib", *options.arguments])
    settings: Json = {
        key: value
        for key, value in vars(options).items()
        if key not in ("run", "arguments", *_FREE)
    }
    settings["environment"] = openmp_settings()
    new = environment(SCHEMA, device, command, settings) | {"results": {}}
    if not options.json.exists():
        return new
    old = read_ledger(options.json, SCHEMA)
    same = ("settings", "commit", "versions")
    for key in same:
        if old[key] != new[key]:
            raise InputError(
                f"{options.json}: holds a measurement with other {key}; "
                "give another --json, or delete it and measure all of it again"
            )
    old["command"] = "; ".join(dict.fromkeys([*old["command"].split("; "), command]))
    return old


def table(ledger: Json) -> str:
    """The headline of each part that was measured, a line each."""
    lines = []
    for dtype, parts in ledger["results"].items():
        for part, found in parts.items():
            reasons = sorted(set(found["missing"].values()))
            told = _HEADLINES[part](found) if not reasons else "; ".join(reasons)
            lines.append(f"{dtype:<9} {part:<8} {told}")
    return "\n".join(lines)


def _span(spread: dict[str, float], unit: str = "") -> str:
    return f"{spread['median']:.2f} [{spread['p25']:.2f}, {spread['p75']:.2f}]{unit}"


def _of_rows(key: str, *names: str) -> Callable[[Json], str]:
    def told(found: Json) -> str:
        cells = (
            f"{' x '.join(str(row[name]) for name in names)}: {_span(row[key])}"
            for row in found["rows"]
        )
        return f"{key}  " + "   ".join(cells)

    return told


_HEADLINES: dict[str, Callable[[Json], str]] = {
    "decode": lambda found: (
        f"{_span(found['ours_ms_per_token'], ' ms')} a token, "
        f"{_span(found['speedup'])} times as fast as {found['peer']}"
    ),
    "verify": _of_rows("to_one_node", "batch", "nodes"),
    "share": _of_rows("outside_forward", "method"),
    "batch": lambda found: (
        f"{_span(found['tokens_per_s'])} tokens/s, {_span(found['times_batch_1'])} times batch 1"
    ),
    "openmp": _of_rows("decode_ms", "wait"),
    "kernels": lambda found: f"{len(found['rows'])} rows",
    "graphs": _of_rows("speedup", "batch", "nodes"),
}
