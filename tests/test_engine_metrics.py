import pytest

from lessons.lib import metrics
from lessons.lib.metrics import RoundRecord


def record(proposed, accepted, draft=1.0, verify=10.0, overhead=0.5):
    return RoundRecord(proposed, accepted, accepted + 1, draft, verify, overhead)


ROUNDS = [record(3, 3), record(3, 1), record(2, 2), record(0, 0), record(3, 0)]


def test_survival_is_over_all_rounds_and_conditional_over_survivors():
    found = metrics.acceptance(ROUNDS)
    assert found.survival == [3 / 5, 2 / 5, 1 / 5]
    assert found.conditional == [3 / 5, 2 / 3, 1 / 2]
    assert found.proposed == [4 / 5, 4 / 5, 3 / 5]


def test_tokens_per_round_follow_from_the_conditionals():
    survival, expected = 1.0, 1.0
    for probability in metrics.acceptance(ROUNDS).conditional:
        survival *= probability
        expected += survival
    assert metrics.acceptance_length(ROUNDS) == pytest.approx(expected) == 11 / 5


def test_what_was_not_observed_is_none():
    found = metrics.acceptance([record(3, 1), record(3, 0)])
    assert found.survival == [0.5, 0.0, 0.0]
    assert found.conditional == [0.5, 0.0, None]
    assert metrics.acceptance([record(0, 0)]).survival == []


def test_no_rounds_give_no_figures():
    assert metrics.acceptance([]).survival == []
    assert metrics.acceptance_length([]) is None
    assert metrics.tokens_per_s([]) is None
    assert metrics.phase_ms([])["verify"] == {"median": None, "total": 0}


def test_times():
    rounds = [record(1, 1, 1, 10, 1), record(1, 0, 2, 20, 3), record(1, 0, 6, 60, 2)]
    times = metrics.phase_ms(rounds)
    assert times["draft"] == {"median": 2, "total": 9}
    assert times["verify"] == {"median": 20, "total": 90}
    assert times["overhead"] == {"median": 2, "total": 6}
    assert times["total"] == {"median": 25, "total": 105}
    assert metrics.tokens_per_s(rounds) == pytest.approx(1000 * 4 / 105)


@pytest.mark.parametrize("fields", [(2, 3, 4), (2, 1, 3), (2, -1, 0)])
def test_impossible_rounds_are_refused(fields):
    with pytest.raises(AssertionError):
        RoundRecord(*fields, 1.0, 1.0, 1.0)
