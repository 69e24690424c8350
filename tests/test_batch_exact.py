"""Speculation in any batch returns the tokens of target-only decoding alone."""

import pytest

from kernels.kv_pool import RollbackPolicy
from lessons.lib.bench.workload import load_prompts
from lessons.lib.draft.registry import make_proposer
from lessons.lib.engine import Engine
from tests.batch_kit import assert_expected, make_cases, run_all, tiny_engine
from tests.engine_models import smollm

METHODS = ["none", "ngram", "ngram-tree", "trees"]


@pytest.mark.parametrize("page_size", [1, 4, 16])
@pytest.mark.parametrize("count", range(1, 9))
def test_mixed_methods_in_every_batch(count, page_size):
    cases = make_cases(count, seed=count)
    outcome, records = run_all(tiny_engine(page_size=page_size), cases, every=1)
    assert_expected(outcome)
    if count > 3:
        assert max(record.num_requests for record in records) > 2
        rounds = [r for record in records for r in record.rounds.values()]
        assert any(0 < r.accepted < r.proposed for r in rounds)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("every", [1, 3, 11])
def test_one_method_with_staggered_arrivals(method, every):
    outcome, _ = run_all(tiny_engine(page_size=4), make_cases(5, 50, [method]), every)
    assert_expected(outcome)


@pytest.mark.parametrize("policy", RollbackPolicy)
def test_every_rollback_policy(policy):
    methods = METHODS[:2] if policy is RollbackPolicy.COUNTER else METHODS
    engine = tiny_engine(page_size=4, policy=policy)
    outcome, _ = run_all(engine, make_cases(6, 60, methods), every=2)
    assert_expected(outcome)
    moved = engine.pool.counters.moved_bytes
    assert moved == 0 if policy is RollbackPolicy.COUNTER else moved > 0


def test_trees_are_accepted_beyond_their_first_branch():
    """Else the comparisons above would never move a row of KV."""
    outcome, _ = run_all(tiny_engine(), make_cases(4, 70, ["trees"]), every=1)
    rounds = [r for _, result in outcome.values() for r in result.rounds]
    assert max(r.accepted for r in rounds) >= 2
    assert any(r.depth < r.proposed for r in rounds)


def test_the_default_model_in_a_batch():
    alone = smollm("float32")
    engine = Engine(alone.model, alone.tokenizer)
    prompts = [load_prompts("heldout", (kind,))[0] for kind in ("copy", "code", "chat")]
    ids = [prompt.token_ids(engine.tokenizer) for prompt in prompts]
    expected = [alone.generate(prompt, 16).token_ids for prompt in ids]
    methods = ["ngram-tree", "ngram", "none"]
    names = [
        engine.add_request(prompt, 16, proposer=make_proposer(method), depth=6)
        for prompt, method in zip(ids, methods, strict=True)
    ]
    records = []
    while engine.has_work:
        records.append(engine.step())
    assert [engine.take_result(name).token_ids for name in names] == expected
    rounds = [step.rounds[names[0]] for step in records if names[0] in step.rounds]
    assert any(r.accepted for r in rounds)
