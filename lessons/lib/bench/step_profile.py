"""What steps of the engine cost on this machine, measured apart from the runs that it explains."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from lessons.lib.bench.pace import beside_ms
from lessons.lib.bench.run import MethodSpec
from lessons.lib.bench.step_times import step_cost, step_times
from lessons.lib.draft.proposer import Proposer
from lessons.lib.draft.registry import make_proposer
from lessons.lib.engine import Engine

_TOKENS = (2, 3, 5, 9, 17)  # of each request in a round
_CHUNK_ROWS = (1, 4, 8, 16, 32, 64, 128, 256)  # of one prompt, and the whole token budget
_CONTEXT = 256  # tokens behind which rounds are timed
_REPEATS = 5

Json = dict[str, Any]


def measure_profile(engine: Engine, batches: Sequence[int], specs: Sequence[MethodSpec]) -> Json:
    """Step times as plain data: `times_ms` of rounds on a grid of batches and tokens, `chunk_ms` of
    chunks of a prompt by rows, and `beside_ms`, what a step takes beside its forward, by method and
    batch, at a method's full depth.

    On a card null with a reason: the sweep runs graphs and this measures eager steps.
    """
    if engine.model.device.type == "cuda":
        return {"times_ms": None, "missing": {"times_ms": "steps are not profiled under graphs"}}
    deepest = max(spec.depth for spec in specs)
    grid = sorted({1, *batches})
    tokens = sorted({1, *(n for n in _TOKENS if n <= deepest), deepest + 1})
    half = engine.model.config.max_context // 2
    times = step_cost(engine.model, grid, tokens, min(_CONTEXT, half), _REPEATS)
    budget = min(int(engine.settings["token_budget"]), half)
    chunks = [*(rows for rows in _CHUNK_ROWS if rows < budget), budget]
    alone = step_times(engine.model, 1, chunks, 1, _REPEATS, num_scored=1)
    return {
        "batches": grid,
        "tokens": tokens,
        "context": min(_CONTEXT, half),
        "times_ms": [[times[batch, count] for count in tokens] for batch in grid],
        "chunk_rows": chunks,
        "chunk_ms": [statistics.median(alone[rows]) for rows in chunks],
        "beside_ms": {
            spec.name: [beside_ms(engine, maker(engine, spec), spec.depth, b) for b in grid]
            for spec in tqdm(specs, desc="drafting", unit="method", disable=None)
        },
        "missing": {},
    }


def maker(engine: Engine, spec: MethodSpec) -> Callable[[], Proposer | None]:
    """Makes greedy proposers of a method."""
    return partial(make_proposer, spec.method, engine.model, None, None, engine.tokenizer)


def beside_growth(profile: Json | None, name: str, before: float, batch: float) -> float:
    """How often a step of `batch` requests takes what one of `before` takes beside its forward.
    Requests draft together, so less than in proportion; in proportion where it was not measured."""
    known = ((profile or {}).get("beside_ms") or {}).get(name)
    if profile is None or known is None:
        return batch / before
    old, new = np.interp([before, batch], profile["batches"], known)
    return float(new / old) if old > 0 else batch / before
