"""Pacing of single requests: the text stays the target's, depth or verification is shortened."""

import itertools
from dataclasses import replace

import pytest

from kernels.runtime import InputError
from lessons.lib.bench import pace
from lessons.lib.draft.adaptive import DEFAULT_CANDIDATES
from lessons.lib.draft.ngram import NgramProposer
from lessons.lib.metrics import StepClock
from tests.batch_kit import random_ids, tiny_engine
from tests.block_kit import block_proposer

PROMPT = random_ids(20, seed=1)


def rounds_of(engine, proposer, depth, num_new=40):
    expected = tiny_engine().generate(PROMPT, num_new, ignore_eos=True).token_ids
    result = engine.generate(PROMPT, num_new, proposer=proposer, depth=depth, ignore_eos=True)
    assert result.token_ids == expected
    return result.rounds


def test_the_adaptive_depth_goes_down_where_nothing_is_accepted(monkeypatch):
    """By a clock for which every step takes as long: not even free drafts are worth a try."""
    ticks = itertools.count()
    monkeypatch.setattr(StepClock, "_now", lambda _clock: next(ticks) * 1e-3)
    engine = tiny_engine()
    engine.pacing, deepest = pace.adaptive_depth()
    assert deepest == max(DEFAULT_CANDIDATES[1])
    proposed = [r.proposed for r in rounds_of(engine, block_proposer("dspark"), deepest)]
    assert proposed[:2] == [0, 0] and 1 in proposed[2:6] and set(proposed[10:]) == {0}


@pytest.mark.parametrize("row_ms, shortened", [(0.0, False), (50.0, True)])
def test_compact_verifies_what_pays_at_the_measured_step_times(monkeypatch, row_ms, shortened):
    """Step times are the machine's; here they are given, so that what pays is known."""
    asked = []

    def step_cost(model, batches, counts, context):
        asked.append((tuple(batches), tuple(counts)))
        return {(1, count): 1.0 + row_ms * count for count in counts}

    monkeypatch.setattr(pace, "step_cost", step_cost)
    engine = tiny_engine()
    engine.pacing = pace.planned_verification(
        engine, lambda: block_proposer("dspark"), 5, "compact"
    )
    assert asked == [((1,), (1, 2, 3, 4, 5, 6))]
    engine.pacing = replace(engine.pacing, depth_policy=None)  # it would turn drafting off
    proposed = [r.proposed for r in rounds_of(engine, block_proposer("dspark"), 5)]
    assert (min(proposed[4:-6]) < 5) == shortened


@pytest.mark.parametrize("mode", pace.MODES)
def test_every_mode_leaves_the_text_alone(mode):
    engine = tiny_engine()
    engine.pacing = pace.planned_verification(engine, lambda: block_proposer("dspark"), 5, mode)
    rounds_of(engine, block_proposer("dspark"), 5, num_new=12)


def test_what_cannot_be_planned_is_refused():
    engine = tiny_engine()
    with pytest.raises(InputError, match="unknown pacing 'fast'; choose one of static"):
        pace.planned_verification(engine, NgramProposer, 4, "fast")
    engine.pacing = pace.planned_verification(engine, NgramProposer, 4, "compact")
    with pytest.raises(InputError, match="needs confidences"):
        engine.generate([5, 6, 7] * 4, 12, proposer=NgramProposer(), depth=4, ignore_eos=True)


@pytest.mark.parametrize("mode, is_off", [("compact", True), ("cap-accept", False)])
def test_only_compact_turns_drafting_off_where_nothing_is_accepted(monkeypatch, mode, is_off):
    ticks = itertools.count()
    monkeypatch.setattr(StepClock, "_now", lambda _clock: next(ticks) * 1e-3)
    engine = tiny_engine()
    proposer = block_proposer("dspark")
    engine.pacing = pace.planned_verification(engine, lambda: block_proposer("dspark"), 5, mode)
    rounds_of(engine, proposer, 5)
    assert (proposer.num_passes < 12) == is_off


def test_what_is_beside_the_forward_is_measured_with_every_request_drafting():
    made = []

    def make():
        made.append(block_proposer("dspark"))
        return made[-1]

    engine = tiny_engine()
    assert pace.beside_ms(engine, make, 4, batch=3) > 0
    assert len(made) == 3 and not engine.has_work
    assert all(proposer.num_cached == 0 < proposer.num_passes for proposer in made)
