"""What a step reports, and the figures that follow from the records alone."""

import pytest

from lessons.lib import metrics
from lessons.lib.metrics import STEP_PHASES, RoundRecord, StepRecord
from tests.batch_kit import make_cases, run_all, tiny_engine


@pytest.fixture(scope="module")
def outcome():
    return run_all(tiny_engine(page_size=4), make_cases(6, seed=30), every=2)


def test_records_account_for_every_token(outcome):
    results, records = outcome
    for name, (case, result) in results.items():
        rounds = [record.rounds[name] for record in records if name in record.rounds]
        assert rounds == result.rounds
        assert 1 + sum(r.emitted for r in rounds) == case.max_new_tokens
    rows = sum(r.proposed + 1 for record in records for r in record.rounds.values())
    rows += sum(sum(record.prefilled.values()) for record in records)
    assert rows == sum(record.num_rows for record in records)


def test_records_describe_the_batch(outcome):
    _, records = outcome
    for record in records:
        assert record.num_requests == len(record.rounds) + len(record.prefilled)
        assert 1 <= record.max_query_len <= record.num_rows
        assert list(record.phase_ms) == list(STEP_PHASES)
        assert all(ms >= 0 for ms in record.phase_ms.values()) and record.phase_ms["verify"] > 0
        assert record.bucket is None
    assert len({record.kv_bytes / record.num_pages for record in records}) == 1


def test_times_of_a_request_are_those_of_its_steps(outcome):
    results, records = outcome
    for name, (_, result) in results.items():
        steps = [record for record in records if name in record.rounds]
        assert result.decode_ms >= sum(step.total_ms for step in steps) * 0.999
        for step in steps:
            record = step.rounds[name]
            assert record.total_ms == pytest.approx(step.total_ms)
            assert record.verify_ms == step.phase_ms["verify"]


def step(rounds, num_pages=1, **phases):
    times = dict.fromkeys(STEP_PHASES, 0.0) | phases
    named = {str(number): record for number, record in enumerate(rounds)}
    size = len(rounds)
    return StepRecord(named, {}, (), (), times, size, size, 1, num_pages, 100 * num_pages)


def test_figures_from_records():
    full = RoundRecord(4, 3, 4, 1.0, 8.0, 1.0, tree_depth=3)
    none = RoundRecord(0, 0, 1, 0.0, 9.0, 1.0)
    steps = [step([full, none], 7, draft=1.0, verify=8.0, rest=1.0), step([none], 3, verify=10.0)]
    assert metrics.verify_efficiency([full, none]) == 5 / 6
    assert metrics.verify_efficiency([]) is None
    shares = metrics.phase_shares(steps)
    assert shares == {"draft": 0.05, "verify": 0.9, "accept": 0, "commit": 0, "rest": 0.05}
    assert metrics.batch_tokens_per_s(steps) == 1000 * 6 / 20
    assert metrics.peak_pages(steps) == (7, 700)
    assert metrics.peak_pages([]) == (0, 0) and metrics.batch_tokens_per_s([]) is None


def test_acceptance_by_depth_of_a_tree():
    """Four nodes on two levels: there is no third or fourth position to survive."""
    tree = RoundRecord(4, 1, 2, 1.0, 8.0, 1.0, tree_depth=2)
    found = metrics.acceptance([tree, RoundRecord(0, 0, 1, 0.0, 9.0, 1.0)])
    assert found.survival == [0.5, 0.0] and found.proposed == [0.5, 0.5]
    with pytest.raises(AssertionError):
        RoundRecord(4, 3, 4, 1.0, 8.0, 1.0, tree_depth=2)
