"""What the machine makes of the engine: OpenMP's way of waiting, and what only a card has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter

import torch

from kernels.bench import measure as measure_kernels
from kernels.graphs import Backend
from kernels.kv_pool import SequenceKV
from kernels.runtime import synchronize
from lessons.lib.bench.engine_speed import CONTEXT, LARGE_BATCH, NUM_NODES, Bench, Json
from lessons.lib.bench.ledger import spread
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.graphed import GraphedForward
from lessons.lib.model.llama import LlamaModel
from lessons.lib.tree import DraftTree

NO_CARD = "no CUDA device: not measured here"
WAITS = {
    "asleep": {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"},
    "default": {},
    "spin 10000": {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "10000"},
    "active": {"OMP_WAIT_POLICY": "active"},
}


def openmp(bench: Bench) -> Json:
    """How OpenMP's workers wait, each way in processes of its own: ms of a decode step and of a
    verification of 8 nodes. On a machine with other work the order may be another one."""
    if bench.model.device.type == "cuda":
        return {"rows": [], "missing": {"rows": "a step on a card does not wait for OpenMP"}}
    times: dict[str, list[list[float]]] = {name: [[], []] for name in WAITS}
    for _ in bench.turns("openmp"):
        for name, settings in WAITS.items():
            for mine, found in zip(times[name], _time_in_child(bench, settings), strict=True):
                mine += found
    rows = [
        {"wait": name, **WAITS[name], "decode_ms": spread(one), "verify_8_ms": spread(eight)}
        for name, (one, eight) in times.items()
    ]
    return {"rows": rows, "missing": {}}


def _time_in_child(bench: Bench, settings: dict[str, str]) -> list[list[float]]:
    code = (
        "import json, sys, kernels; from lessons.lib.bench.step_times import step_times;"
        "from lessons.lib.model.loader import load_model; path, dtype = json.loads(sys.argv[1]);"
        f"model, _ = load_model(path, dtype, 'cpu'); times = step_times(model, 1, (1, 8), {CONTEXT}"
        ", 20); print(json.dumps([times[1], times[8]]))"
    )
    given = {key: value for key, value in os.environ.items() if key not in WAITS["asleep"]}
    argument = json.dumps([str(bench.path) if bench.path else None, bench.dtype])
    done = subprocess.run(
        [sys.executable, "-c", code, argument],
        env=given | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def kernels(bench: Bench) -> Json:
    """Each kernel against its reference, torch's best and the byte floor."""
    if bench.model.device.type != "cuda":
        return {"rows": None, "missing": {"rows": NO_CARD}}
    return measure_kernels(bench.model.device, bench.model.dtype, 10 * bench.repeats) | {
        "missing": {}
    }


def graphs(bench: Bench) -> Json:
    """Steps replayed from CUDA graphs against the same steps run eagerly."""
    if bench.model.device.type != "cuda":
        return {"rows": None, "missing": {"rows": NO_CARD}}
    return time_graphs(bench.model, 10 * bench.repeats)


@torch.inference_mode()
def time_graphs(model: LlamaModel, repeats: int, backend: Backend | None = None) -> Json:
    """`backend` None captures real graphs. The buckets are chosen from the staircase first."""
    pool = model.new_pool(LARGE_BATCH * (CONTEXT + NUM_NODES[-1] + 16) + 16)
    graphed = GraphedForward(model, pool, LARGE_BATCH, backend)
    choice = graphed.tune()
    sequences = [SequenceKV() for _ in range(LARGE_BATCH)]
    for kv in sequences:
        pool.reserve_tree(kv, CONTEXT)
        pool.commit(kv, CONTEXT)
    rows = []
    for size, count in ((1, 1), (1, 8), (8, 1), (8, 8)):
        trees = [(kv, DraftTree.chain([0] * count)) for kv in sequences[:size]]
        step = prepare_batch(pool, trees)
        times: dict[str, list[float]] = {"graph": [], "eager": []}
        for turn in range(repeats + 1):
            for name, run in (("graph", graphed), ("eager", model.forward)):
                elapsed = _time(run, (step,) if name == "graph" else (step, pool), model)
                times[name] += [elapsed] if turn else []
        for kv, _ in trees:
            pool.commit(kv, 0)
        ratios = [e / g for e, g in zip(times["eager"], times["graph"], strict=True)]
        spreads = {f"{name}_ms": spread(values) for name, values in times.items()}
        rows.append({"batch": size, "nodes": count, **spreads, "speedup": spread(ratios)})
    return {
        "rows": rows,
        "buckets": choice._asdict() | {"captured_bytes": graphed.counters.captured_bytes},
        "missing": {},
    }


def _time(run: Callable[..., object], arguments: tuple[object, ...], model: LlamaModel) -> float:
    synchronize(model.device)
    started = perf_counter()
    run(*arguments)
    synchronize(model.device)
    return (perf_counter() - started) * 1e3
