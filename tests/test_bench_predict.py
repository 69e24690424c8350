"""Predictions agree with the round model and with played rounds, and count as right or wrong."""

import copy

import numpy as np
import pytest
import serving_kit

from kernels.runtime import InputError
from lessons.lib.bench import predict, report
from lessons.lib.bench.arrivals import ClosedLoop, OpenLoop
from lessons.lib.bench.driver import drive
from lessons.lib.bench.mixture import RECIPES, draw_requests
from lessons.lib.bench.run import BASELINE
from lessons.lib.bench.run_ledger import EngineFacts, Task, make_point
from lessons.lib.bench.simulate import BatchServer, run_virtual
from lessons.lib.bench.step_profile import beside_growth
from lessons.lib.bench.sweep import draw_seed
from lessons.lib.bench.workload import load_prompts
from lessons.lib.cost_profile import StepProfile
from lessons.lib.metrics import Acceptance, RoundRecord, acceptance

TIMES = {(b, n): 10 + 0.4 * b * n for b in (1, 2, 4, 8) for n in range(1, 6)}
PROFILE = StepProfile.from_samples(TIMES)
STAIRS = StepProfile.from_samples({(1, 1): 10.0, (1, 3): 14.0, (1, 5): 20.0}, as_graphs=True)


@pytest.mark.parametrize("batch", [1, 4, 8])
def test_full_proposals_take_what_the_round_model_says(batch):
    found = Acceptance([0.8, 0.5, 0.2], [0.8, 0.625, 0.4], [1.0, 1.0, 1.0])
    assert predict.verify_ms(found, batch, PROFILE) == pytest.approx(PROFILE.step_ms(batch, 4))


def test_uneven_proposals_pay_for_each_depth_by_itself():
    rounds = [(4, 4)] * 3 + [(0, 0)] * 5 + [(2, 1)] * 2  # (proposed, accepted)
    records = [RoundRecord(p, a, a + 1, 0.2, STAIRS.step_ms(1, p + 1), 0.1) for p, a in rounds]
    truth = np.mean([record.verify_ms for record in records])
    assert predict.verify_ms(acceptance(records), 1, STAIRS) == pytest.approx(truth)


def test_law_of_rows_is_that_of_independent_requests():
    proposed, batch = [0.6, 0.5, 0.1], 3
    law = predict.rows_law(proposed, batch)
    rng = np.random.default_rng(0)
    depths = rng.choice(4, p=[0.4, 0.1, 0.4, 0.1], size=(100_000, batch))
    played = np.bincount((depths + 1).sum(axis=1), minlength=len(law)) / 100_000
    assert law.sum() == pytest.approx(1) and len(law) == batch * 4 + 1
    assert np.abs(law - played).max() < 0.007  # four standard errors of the largest share


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: predict.rows_law([0.2, 0.5], 1),
        lambda: predict.verify_ms(Acceptance([], [], []), 0, PROFILE),
        lambda: predict.verify_ms(Acceptance([], [], []), 16, PROFILE),
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(InputError):
        wrong()


def test_rows_hold_prediction_against_measurement():
    ledger = serving_kit.clean_ledger()  # the simulated method is 1.5 times as fast at any load

    def predictor(point):
        if point["arrivals"]["loop"] == "open":
            return None
        return 1.6 if point["arrivals"]["concurrency"] == 1 else 1.2

    rows = predict.prediction_rows(ledger["points"], predictor)
    assert [(row["load"], row["predicted"]) for row in rows] == [
        ("concurrency 1", 1.6),
        ("concurrency 4", 1.2),
    ]
    assert [row["error"] for row in rows] == pytest.approx([1.6 / 1.5 - 1, -0.2])
    assert predict.is_validated(rows) is False
    assert predict.is_validated(rows[:1]) is True
    assert predict.is_validated([]) is None
    text = report.report(ledger | {"predictions": rows})
    assert "1 of 2 predictions lie within 15% of the measured speedup" in text


# --- a whole sweep on a server whose costs are known ----------------------------------------------

SURVIVAL, PREFILL_TOKENS, DRAFT_MS = (0.7, 0.45, 0.2, 0.1), 100, 1.5
PROFILED = {
    "batches": [1, 2, 4, 8, 16],
    "tokens": [1, 2, 5],
    "times_ms": [[10 + 0.5 * b * n for n in (1, 2, 5)] for b in (1, 2, 4, 8, 16)],
    "chunk_rows": [1, 512],
    "chunk_ms": [10.5, 266.0],
}
SETUP = {"engine": "simulated", "max_running": 16, "token_budget": 10_000}


def simulated_point(method, load, seed):
    """A run of a server with the profile's costs, and facts as an engine would tell them."""
    depth = 0 if method == BASELINE else len(SURVIVAL)
    survival = list(SURVIVAL[:depth])
    server = BatchServer(
        lambda batch: (10 + 0.5 * batch * (1 + depth) + batch * DRAFT_MS * bool(depth)) / 1000,
        0.5 * PREFILL_TOKENS / 1000,
        survival,
        seed,
    )
    number = 10 + 2 * load.concurrency if isinstance(load, ClosedLoop) else 30
    requests = draw_requests(RECIPES["course"], load_prompts("sweep"), number, draw_seed(seed, 0))
    log = run_virtual(drive(server, requests, load, draw_seed(seed, 0)))
    phases = {"draft": DRAFT_MS * bool(depth), "accept": 0.0, "commit": 0.0, "rest": 0.0}
    facts = EngineFacts(
        setup=SETUP,
        acceptance={"survival": survival, "conditional": [], "proposed": [1.0] * depth},
        acceptance_length=1 + sum(survival),
        round_ms={"verify": 12.0, "requests": 1.0, "rows": 1.0 + depth} | phases,
        prefill={"tokens": PREFILL_TOKENS, "beside_ms": 0.0},
    )
    task = Task(method, load, seed, 0)
    return make_point(task, RECIPES["course"], "sweep", requests, log, facts, None, 1)


@pytest.fixture(scope="module")
def sweep():
    loads = [*map(ClosedLoop, (1, 2, 4, 8, 16)), *map(OpenLoop, (1.0, 3.0, 6.0))]
    points = [
        simulated_point(method, load, seed)
        for load in loads
        for seed in range(6)
        for method in (BASELINE, "drafter-4")
    ]
    return {"points": points, "profile": PROFILED}


def test_known_costs_are_predicted_under_every_load(sweep):
    rows = predict.prediction_rows(sweep["points"], predict.engine_predictor(sweep))
    assert len(rows) == 8 and predict.is_validated(rows)
    assert max(abs(row["error"]) for row in rows) < 0.08
    speedups = [row["measured"] for row in rows]
    assert max(speedups) > 1.3 and min(speedups) < 0.95  # there was something to get wrong


def test_a_model_that_ignores_prefills_is_not_validated(sweep):
    blind = copy.deepcopy(sweep)
    for point in blind["points"]:
        point["prefill"] = {"tokens": 1, "beside_ms": 0.0}
    rows = predict.prediction_rows(blind["points"], predict.engine_predictor(blind))
    assert not predict.is_validated(rows)


@pytest.mark.parametrize("gone", ["round_ms", "prefill", "profile"])
def test_what_was_not_measured_is_not_predicted(sweep, gone):
    points = [dict(point) for point in sweep["points"][:2]]
    profile = PROFILED if gone != "profile" else {"times_ms": None}
    if gone != "profile":
        points[1][gone] = None
    predictor = predict.engine_predictor({"points": points, "profile": profile})
    assert predictor(points[1]) is None


def test_what_is_beside_the_forward_grows_as_it_was_measured():
    profile = {"batches": [1, 4, 8], "beside_ms": {"mtp-4": [10.0, 16.0, 20.0]}}
    assert beside_growth(profile, "mtp-4", 1, 8) == 2
    assert beside_growth(profile, "mtp-4", 2, 6) == pytest.approx(18 / 12)
    assert beside_growth(profile, "mtp-4", 4, 4) == 1
    for unknown in (profile, {}, None):
        assert beside_growth(unknown, "dflash-7", 2, 6) == 3


def test_a_run_law_drafts_as_the_profile_says_requests_share_it():
    point = simulated_point("drafter-4", ClosedLoop(2), 0)
    point["round_ms"] |= {"requests": 2.0, "draft": 6.0, "rest": 2.0}
    apart = predict.run_law(point, PROFILED)
    shared = PROFILED | {"beside_ms": {"drafter-4": [4.0 + b for b in PROFILED["batches"]]}}
    together = predict.run_law(point, shared)
    for batch in (2, 8):
        forward = apart.round_ms(batch) - 8 * batch / 2
        assert together.round_ms(batch) == pytest.approx(forward + 8 * (4 + batch) / 6)
