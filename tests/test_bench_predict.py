"""Predictions agree with the round model and with played rounds, and count as right or wrong."""

import numpy as np
import pytest
import serving_kit

from kernels.runtime import InputError
from lessons.lib.bench import predict, report
from lessons.lib.cost import RoundModel
from lessons.lib.cost_profile import StepProfile
from lessons.lib.metrics import Acceptance, RoundRecord, acceptance

TIMES = {(b, n): 10 + 0.4 * b * n for b in (1, 2, 4, 8) for n in range(1, 6)}
PROFILE = StepProfile.from_samples(TIMES)
STAIRS = StepProfile.from_samples({(1, 1): 10.0, (1, 3): 14.0, (1, 5): 20.0}, as_graphs=True)


@pytest.mark.parametrize("batch", [1, 4, 8])
def test_full_proposals_are_the_round_model(batch):
    found = Acceptance([0.8, 0.5, 0.2], [0.8, 0.625, 0.4], [1.0, 1.0, 1.0])
    model = RoundModel(found.survival, lambda b, d: 0.5 * d, PROFILE.step_ms, overhead_ms=0.3)
    predicted = predict.predicted_speedup(found, batch, PROFILE, 1.5, 0.3)
    assert predicted == pytest.approx(model.speedup(batch, 3))


def test_uneven_proposals_pay_for_each_depth_by_itself():
    rounds = [(4, 4)] * 3 + [(0, 0)] * 5 + [(2, 1)] * 2  # (proposed, accepted)
    records = [RoundRecord(p, a, a + 1, 0.2, STAIRS.step_ms(1, p + 1), 0.1) for p, a in rounds]
    truth = 10 * sum(r.emitted for r in records) / sum(r.total_ms for r in records)
    predicted = predict.predicted_speedup(acceptance(records), 1, STAIRS, 0.2, 0.1)
    assert predicted == pytest.approx(truth)


def test_law_of_rows_is_that_of_independent_requests():
    proposed, batch = [0.6, 0.5, 0.1], 3
    law = predict.rows_law(proposed, batch)
    rng = np.random.default_rng(0)
    depths = rng.choice(4, p=[0.4, 0.1, 0.4, 0.1], size=(100_000, batch))
    played = np.bincount((depths + 1).sum(axis=1), minlength=len(law)) / 100_000
    assert law.sum() == pytest.approx(1) and len(law) == batch * 4 + 1
    assert np.abs(law - played).max() < 0.007  # four standard errors of the largest share


def test_no_proposals_at_no_cost_change_nothing():
    assert predict.predicted_speedup(Acceptance([], [], []), 4, PROFILE, 0.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: predict.rows_law([0.2, 0.5], 1),
        lambda: predict.predicted_speedup(Acceptance([], [], []), 0, PROFILE, 0.0),
        lambda: predict.predicted_speedup(Acceptance([], [], []), 16, PROFILE, 0.0),
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
