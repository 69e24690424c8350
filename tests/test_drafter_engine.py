"""Standalone, MTP, FROZEN_KV_MTP in the engine: they change how fast tokens come, not which."""

import pytest

from kernels.kv_integrity import check_integrity
from lessons.lib.config import SamplingParams
from tests.batch_kit import random_ids, run_all, tiny_engine, tiny_model
from tests.drafter_kit import KINDS, DrafterCase, draft_model, make_drafter, random_net

SETTINGS = {
    "batch": {},
    "one by one": {"max_running": 1},
    "chunked": {"token_budget": 11},
    "preempted": {"num_kv_tokens": 80, "page_size": 8, "token_budget": 24},
}


def make_cases(count=6, num_new=20):
    cases = []
    for number in range(count):
        prompt, kind = random_ids(6 + 7 * number, number), KINDS[number % len(KINDS)]
        case = DrafterCase(prompt, num_new, SamplingParams(), kind, 3 + number % 4, number)
        case.expected = tiny_engine().generate(prompt, num_new, ignore_eos=True).token_ids
        cases.append(case)
    return cases


def test_greedy_tokens_and_what_is_accepted_depend_on_no_neighbour_chunk_or_preemption():
    accepted, cases = [], make_cases()
    for name, settings in SETTINGS.items():
        outcome, records = run_all(tiny_engine(**settings), cases, every=2)
        assert any(record.preempted for record in records) == (name == "preempted")
        for case, result in outcome.values():
            assert result.token_ids == case.expected, (name, case.method)
        rounds = [[r.accepted for r in result.rounds] for _, result in outcome.values()]
        accepted.append(rounds)
    assert all(rounds == accepted[0] for rounds in accepted)
    assert {count for rounds in accepted[0] for count in rounds} > {0, 1, 2}
    draft = DrafterCase.nets["standalone"]
    assert draft.pool.allocator.num_owned == 0


def test_a_small_model_keeps_the_kv_of_what_was_accepted():
    """After each step it holds the context but for the last token and the last draft."""
    (case,) = make_cases(1)
    engine = tiny_engine(token_budget=9)
    name, checked = case.add_to(engine), 0
    drafter = case.made.inner
    while engine.has_work:
        record = engine.step()
        context = [*case.prompt, *engine._requests[name].output_ids]
        check_integrity(drafter._draft.pool, [drafter._kv])
        if name in record.rounds and engine.has_work:
            shared = [a == b for a, b in zip(drafter._known, context, strict=False)]
            assert shared.index(False) if False in shared else len(shared) >= len(context) - 2
            assert drafter._kv.length == len(drafter._known)
            checked += 1
    assert engine.take_result(name).token_ids == case.expected and checked > 4


def test_where_the_pool_of_the_small_model_is_full_it_drafts_nothing():
    model, _ = tiny_model()
    draft = draft_model(random_net("standalone"), model, num_kv_tokens=64)
    prompts = [random_ids(20, seed=number) for number in range(3)]
    engine, names = tiny_engine(), []
    for prompt in prompts:
        proposer = make_drafter("standalone", draft)
        names.append(engine.add_request(prompt, 12, None, proposer, 4, ignore_eos=True))
    drafted = []
    while engine.has_work:
        drafted += [record.proposed for record in engine.step().rounds.values()]
    for name, prompt in zip(names, prompts, strict=True):
        alone = tiny_engine().generate(prompt, 12, ignore_eos=True)
        assert engine.take_result(name).token_ids == alone.token_ids
    assert {0, 4} <= set(drafted) and draft.pool.allocator.num_owned == 0


def test_a_small_model_drafts_as_far_as_its_context_reaches():
    model, _ = tiny_model()
    draft = draft_model(random_net("standalone"), model)
    last = model.config.max_context
    for length, expected in ((last - 2, 3), (last, 1), (last + 1, 0)):
        proposal = make_drafter("standalone", draft).propose(random_ids(length, seed=1), 4)
        assert len(proposal.token_ids) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_proposer_serves_one_request_after_the_other(kind):
    drafter, net = None, random_net(kind)
    drafter = make_drafter(kind, net)
    for seed in (1, 2):
        prompt = random_ids(12, seed)
        found = tiny_engine().generate(prompt, 10, proposer=drafter, depth=3, ignore_eos=True)
        fresh = make_drafter(kind, net)
        expected = tiny_engine().generate(prompt, 10, proposer=fresh, depth=3, ignore_eos=True)
        assert found.token_ids == expected.token_ids
        assert [r.accepted for r in found.rounds] == [r.accepted for r in expected.rounds]
