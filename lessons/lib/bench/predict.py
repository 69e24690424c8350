"""What the cost model says of every measured load, beside what was measured there.

The prediction takes acceptance from the run and times from a step profile measured apart, so that
an error tells which of the two the model misreads. It is about decoding: it is held against TPOT.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from kernels.runtime import InputError
from lessons.lib.bench.pace import beside_ms
from lessons.lib.bench.run import BASELINE, MethodSpec, step_cost
from lessons.lib.bench.run_ledger import compare, load_name, load_order, point_key
from lessons.lib.cost_profile import Floats, StepProfile
from lessons.lib.draft.registry import make_proposer
from lessons.lib.engine import Engine
from lessons.lib.metrics import Acceptance

TOLERANCE = 0.15  # relative error of a prediction that counts as right
TOLERATED_SHARE = 0.8  # of the predictions have to be right
_PROFILED_TOKENS = (2, 3, 5, 9, 17)
_PROFILED_CONTEXT = 256  # tokens behind which steps are timed

Json = dict[str, Any]
Predictor = Callable[[Json], float | None]


def predicted_speedup(
    acceptance: Acceptance,
    batch: int,
    profile: StepProfile,
    draft_ms: float,
    overhead_ms: float = 0.0,
    plain_overhead_ms: float = 0.0,
) -> float:
    """Tokens per round times t_1(B), over draft, verify and overhead of a round of the batch.

    draft_ms, overhead_ms: of a round of the whole batch; plain_overhead_ms: what target-only's
    step takes beside the forward. With a proposer that always fills its depth and no plain
    overhead this is RoundModel.speedup.
    """
    tokens = 1 + sum(acceptance.survival)
    round_ms = draft_ms + verify_ms(acceptance, batch, profile) + overhead_ms
    return tokens * (profile.step_ms(batch, 1) + plain_overhead_ms) / round_ms


def verify_ms(acceptance: Acceptance, batch: int, profile: StepProfile) -> float:
    """Mean time of the forward of a round.

    A proposer may find fewer drafts than it was asked for, so the rows of a step vary: their law
    follows from `acceptance.proposed`, requests being independent.
    """
    if batch < 1:
        raise InputError(f"batch must be 1 or more, got {batch}")
    law = rows_law(acceptance.proposed, batch)
    return float(
        sum(
            chance * profile.step_ms(batch, rows / batch)
            for rows, chance in enumerate(law)
            if chance
        )
    )


def rows_law(proposed: Sequence[float], batch: int) -> Floats:
    """Probability of every number of rows in a step of `batch` independent requests.

    proposed[k]: share of rounds with a draft at position k + 1. A request has one row and one more
    for each draft. Returns [batch * (depth + 1) + 1] float64, index = rows.
    """
    reached = np.array([1.0, *proposed, 0.0])
    one = np.concatenate([[0.0], reached[:-1] - reached[1:]])
    if (one < -1e-12).any():
        raise InputError(f"shares of proposals rise with the position: {list(proposed)}")
    law = np.array([1.0])
    for _ in range(batch):
        law = np.convolve(law, np.maximum(one, 0.0))
    return law


def measure_profile(engine: Engine, batches: Sequence[int], specs: Sequence[MethodSpec]) -> Json:
    """Step times of the engine's model as plain data, on the grid that the sweep needs, and for
    planned methods what a round of one request takes beside its forward.

    On a card null with a reason: the sweep runs graphs and this measures eager steps.
    """
    if engine.model.device.type == "cuda":
        return {"times_ms": None, "missing": {"times_ms": "steps are not profiled under graphs"}}
    deepest = max(spec.depth for spec in specs)
    planned = [spec for spec in specs if spec.is_planned]
    grid = sorted({1, *batches})
    tokens = sorted({1, *(n for n in _PROFILED_TOKENS if n <= deepest), deepest + 1})
    context = min(_PROFILED_CONTEXT, engine.model.config.max_context // 2)
    times = step_cost(engine.model, grid, tokens, context)
    return {
        "batches": grid,
        "tokens": tokens,
        "context": context,
        "times_ms": [[times[batch, count] for count in tokens] for batch in grid],
        "beside_ms": {
            spec.name: beside_ms(engine, make_proposer(spec.method, engine.model), spec.depth)
            for spec in planned
        },
        "missing": {},
    }


def engine_predictor(ledger: Json) -> Predictor:
    """Predicts closed loops from the ledger's step profile: the users are the batch.

    Of the run itself it takes what it does not claim to know: acceptance, the time to draft, and
    what steps take beside the forward. What it predicts is the forward and how it all adds up.
    """
    times = ledger.get("profile", {}).get("times_ms")
    plain = {point_key(p)[1:]: p["round_ms"] for p in ledger["points"] if p["method"] == BASELINE}

    def predict(point: Json) -> float | None:
        own, base = point["round_ms"], plain.get(point_key(point)[1:])
        batch = point["arrivals"].get("concurrency")
        if not (times and own and base and batch and point["acceptance"]):
            return None
        if batch > point["setup"]["max_running"]:
            return None
        return predicted_speedup(
            Acceptance(**point["acceptance"]),
            batch,
            StepProfile.from_ledger(ledger["profile"]),
            own["draft"],
            _beside_forward(own),
            _beside_forward(base),
        )

    return predict


def _beside_forward(round_ms: Json) -> float:
    return float(round_ms["accept"] + round_ms["commit"] + round_ms["rest"])


def prediction_rows(points: Sequence[Json], predictor: Predictor) -> list[Json]:
    """A row a method and load: {"method", "load", "measured", "predicted", "error"}.

    predictor(point) gives a speedup, or None where it cannot (no acceptance, load not profiled).
    measured: ratio of median TPOT over paired blocks. error: predicted / measured - 1. Loads that
    lack either are left out, since they are no evidence for or against the model.
    """
    measured = {
        (row["method"], row["load"]): row["ratio"]["estimate"]
        for row in compare(points, "tpot_ms.p50")
        if row["ratio"]
    }
    drafted = sorted((p for p in points if p["method"] != BASELINE), key=_group)
    rows = []
    for (method, _), group in groupby(drafted, key=_group):
        blocks = list(group)
        load = load_name(blocks[0]["arrivals"])
        predictions = [value for point in blocks if (value := predictor(point)) is not None]
        if predictions and (method, load) in measured:
            predicted, truth = statistics.median(predictions), measured[method, load]
            row = {"method": method, "load": load, "measured": truth, "predicted": predicted}
            rows.append(row | {"error": predicted / truth - 1})
    return rows


def is_validated(rows: Sequence[Json]) -> bool | None:
    """Whether enough predictions are right; None without any."""
    right = sum(abs(row["error"]) <= TOLERANCE for row in rows)
    return right >= TOLERATED_SHARE * len(rows) if rows else None


def _group(point: Json) -> tuple[str, tuple[str, float, str]]:
    return point["method"], load_order(point)
