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
from lessons.lib.bench.run import BASELINE
from lessons.lib.bench.run_ledger import compare, load_name, load_order
from lessons.lib.cost_profile import Floats, StepProfile
from lessons.lib.metrics import Acceptance

TOLERANCE = 0.15  # relative error of a prediction that counts as right
TOLERATED_SHARE = 0.8  # of the predictions have to be right

Json = dict[str, Any]
Predictor = Callable[[Json], float | None]


def predicted_speedup(
    acceptance: Acceptance,
    batch: int,
    profile: StepProfile,
    draft_ms: float,
    overhead_ms: float = 0.0,
) -> float:
    """Tokens per round times t_1(B), over draft, verify and overhead of a round of the batch.

    A proposer may find fewer drafts than it was asked for, so the rows of a step vary: their law
    follows from `acceptance.proposed`, requests being independent, and the verify time is the mean
    over it. With a proposer that always fills its depth this is RoundModel.speedup.
    draft_ms, overhead_ms: of a round of the whole batch.
    """
    if batch < 1:
        raise InputError(f"batch must be 1 or more, got {batch}")
    tokens = 1 + sum(acceptance.survival)
    law = rows_law(acceptance.proposed, batch)
    verify = sum(
        chance * profile.step_ms(batch, rows / batch) for rows, chance in enumerate(law) if chance
    )
    return float(tokens * profile.step_ms(batch, 1) / (draft_ms + verify + overhead_ms))


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
