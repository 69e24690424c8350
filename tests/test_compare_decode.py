"""Batches decoded side by side: what their rounds count, and how a step's time is shared out."""

import pytest

from kernels.runtime import InputError
from lessons.lib.bench.decode import decode
from lessons.lib.bench.run import MethodSpec, adaptive_pacing, method_specs, run_interleaved
from lessons.lib.bench.workload import Prompt
from lessons.lib.draft.ngram import NgramProposer
from tests.batch_kit import random_ids, tiny_engine
from tests.block_kit import block_proposer

TEXTS = [random_ids(12, seed=1), random_ids(9, seed=2), random_ids(15, seed=3)]


def emitted(found):
    return sum(record.emitted for record in found.rounds)


def test_a_step_is_shared_out_among_its_rounds(monkeypatch):
    engine, steps = tiny_engine(), []
    step = engine.step
    monkeypatch.setattr(engine, "step", lambda: steps.append(step()) or steps[-1])
    found = decode(engine, TEXTS, [NgramProposer() for _ in TEXTS], 4, 12, None)
    pure = [record for record in steps if not record.prefilled]
    for phase, held in (("draft", ("draft",)), ("overhead", ("accept", "commit", "rest"))):
        shared = sum(getattr(record, f"{phase}_ms") for record in found.rounds)
        whole = sum(record.phase_ms[name] for record in pure for name in held)
        assert shared == pytest.approx(whole)
    assert sum(record.total_ms for record in found.rounds) == pytest.approx(
        sum(record.total_ms for record in pure)
    )
    assert found.prefill_ms == pytest.approx(sum(r.total_ms for r in steps if r.prefilled))
    assert not engine.has_work


def test_a_batch_emits_what_its_requests_emit_alone():
    engine = tiny_engine()
    together = decode(engine, TEXTS, [None] * 3, 0, 10, None)
    alone = [engine.generate(text, 10) for text in TEXTS]
    assert emitted(together) == sum(len(result.token_ids) - 1 for result in alone)
    assert (together.num_passes, together.num_drafted, together.num_drafts) == (0, 0, 0)
    assert together.extra_memory_bytes == 0


@pytest.mark.parametrize("kind", ["dflash", "dspark"])
def test_a_block_costs_one_pass_and_its_weights_count_once(kind):
    engine = tiny_engine()
    drafters = [block_proposer(kind) for _ in TEXTS]
    weights = drafters[0].memory_bytes
    found = decode(engine, TEXTS, drafters, 3, 10, None)
    assert found.num_passes == found.num_drafted == sum(r.proposed > 0 for r in found.rounds) > 3
    assert found.num_drafts == sum(record.proposed for record in found.rounds)
    assert weights < found.extra_memory_bytes < 2 * weights


def test_a_request_that_fails_leaves_the_engine_empty(monkeypatch):
    engine = tiny_engine()

    def fail(context_ids, count):
        raise ZeroDivisionError

    broken = NgramProposer()
    monkeypatch.setattr(broken, "propose", fail)
    with pytest.raises(ZeroDivisionError):
        decode(engine, TEXTS[:2], [NgramProposer(), broken], 4, 10, None)
    assert not engine.has_work


PROMPTS = [Prompt(kind, str(n), f"<{n}> <7> <{n}> <7>") for kind in "ab" for n in (3, 4, 5)]


def test_batches_hold_prompts_of_one_kind_and_rest_is_left_out():
    runs = run_interleaved(
        tiny_engine(), PROMPTS, method_specs(["ngram"], [2]), 1, 5, progress=False, batch=2
    )
    assert [(run.kind, run.prompt, run.spec.name) for run in runs] == [
        ("a", "3+4", "baseline"),
        ("a", "3+4", "ngram-2"),
        ("b", "3+4", "ngram-2"),
        ("b", "3+4", "baseline"),
    ]


@pytest.mark.parametrize(
    "batch, message", [(4, "no fewer prompts .* batch of 4"), (0, "1 or more")]
)
def test_what_fills_no_batch_is_refused(batch, message):
    with pytest.raises(InputError, match=message):
        run_interleaved(tiny_engine(), PROMPTS, method_specs([], []), batch=batch)


def test_a_controller_goes_on_from_prompt_to_prompt_of_a_kind():
    """One each for the warm-up, and one each for what is measured of a kind."""
    made = []

    def pacing(spec):
        made.append(spec.name)
        return adaptive_pacing(spec)

    specs = [MethodSpec("none", 0), MethodSpec("ngram", 7, is_adaptive=True)]
    engine = tiny_engine()
    kept = engine.pacing
    run_interleaved(engine, PROMPTS, specs, 2, 6, None, False, pacing=pacing)
    kinds = {prompt.kind for prompt in PROMPTS}
    assert len(PROMPTS) > len(kinds) and made == ["ngram-auto"] * (1 + len(kinds))
    assert engine.pacing is kept
