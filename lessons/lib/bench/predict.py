"""What the cost model says of every measured load, beside what was measured there.

The prediction takes acceptance from the run and times from a step profile measured apart, so that
an error tells which of the two the model misreads. How rounds and prefills add up under a load is
in replay.py. It is about decoding: it is held against TPOT.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import groupby
from typing import Any

import numpy as np

from kernels.runtime import InputError
from lessons.lib.bench.arrivals import read_arrivals
from lessons.lib.bench.replay import RunLaw, tpots_ms
from lessons.lib.bench.run import BASELINE
from lessons.lib.bench.run_ledger import (
    compare,
    load_name,
    load_order,
    point_key,
)
from lessons.lib.bench.step_profile import beside_growth
from lessons.lib.bench.sweep import draw_seed
from lessons.lib.cost_profile import Floats, StepProfile
from lessons.lib.metrics import Acceptance

TOLERANCE = 0.15  # relative error of a prediction that counts as right
TOLERATED_SHARE = 0.8  # of the predictions have to be right

Json = dict[str, Any]
Predictor = Callable[[Json], float | None]


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


def engine_predictor(ledger: Json) -> Predictor:
    """Predicts from the ledger's step profile, in closed loops and in open ones.

    Of the run itself it takes what it does not claim to know: acceptance, the time to draft, what
    steps take beside the forward, and how long prompts and answers were. What it predicts is the
    forward, and how rounds and prefills add up to a TPOT under the load.
    """
    plain = {point_key(p)[1:]: p for p in ledger["points"] if p["method"] == BASELINE}
    profile = ledger.get("profile", {})

    @cache
    def base_tpot(key: tuple[str, int, int]) -> float | None:
        return predicted_tpot(plain[key], profile) if key in plain else None

    def predict(point: Json) -> float | None:
        base, own = base_tpot(point_key(point)[1:]), predicted_tpot(point, profile)
        return base / own if base and own else None

    return predict


def predicted_tpot(point: Json, profile: Json) -> float | None:
    """Median TPOT in ms by the model; None where the ledger lacks what it needs."""
    if not (profile.get("times_ms") and point["round_ms"] and point["prefill"]):
        return None
    felt = [r for r in point["requests"].values() if r["error"] is None and r["output_tokens"]]
    answers = [(r["output_tokens"], r["num_chunks"] - 1) for r in felt]  # a chunk is a round's
    load, seed = read_arrivals(point["arrivals"]), draw_seed(point["seed"], point["block"])
    prompt_tokens = round(point["prefill"]["tokens"])
    found = tpots_ms(run_law(point, profile), load, prompt_tokens, answers, seed)
    return statistics.median(found) if found else None


def run_law(point: Json, profile: Json) -> RunLaw:
    """The model's figures for a run. What a step takes beside its forward is the run's own at the
    mean number of its requests; how it grows with them is the profile's."""
    own, accepted = point["round_ms"], Acceptance(**point["acceptance"])
    steps = StepProfile.from_ledger(profile)
    beside = own["draft"] + own["accept"] + own["commit"] + own["rest"]
    growth = partial(beside_growth, profile, point["method"], own["requests"])

    @cache
    def round_ms(batch: int) -> float:
        return verify_ms(accepted, batch, steps) + beside * growth(batch)

    def rows_ms(rows: float) -> float:
        """A forward of so many rows of one request; behind the last measured one as before it."""
        known, times = profile["chunk_rows"], profile["chunk_ms"]
        slope = (times[-1] - times[-2]) / (known[-1] - known[-2])
        beyond = max(0.0, rows - known[-1]) * slope
        return float(np.interp(rows, known, times)) + beyond if rows else 0.0

    return RunLaw(
        round_ms=round_ms,
        chunk_ms=lambda rows, chunk: rows_ms(rows + chunk) - rows_ms(rows),
        rows=1 + sum(accepted.proposed),
        prefill_ms=point["prefill"]["beside_ms"],
        max_running=point["setup"]["max_running"],
        token_budget=point["setup"]["token_budget"],
    )


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
