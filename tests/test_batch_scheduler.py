"""Admission, budget, chunks, prefixes, preemption, abort: none of them shows in the output."""

import pytest

from kernels.kv_integrity import check_integrity
from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from tests.batch_kit import (
    Case,
    RandomTrees,
    assert_expected,
    make_cases,
    random_ids,
    run_all,
    tiny_engine,
)


def plain(prompt, count, **settings):
    return tiny_engine().generate(prompt, count, ignore_eos=True, **settings).token_ids


@pytest.mark.parametrize("budget", [9, 16, 33])
def test_chunked_equals_unchunked(budget):
    cases = make_cases(6, seed=3)
    outcome, records = run_all(tiny_engine(token_budget=budget), cases)
    assert_expected(outcome)
    assert max(record.num_rows for record in records) <= budget
    mixed = [record for record in records if record.rounds and record.prefilled]
    assert mixed, "no step had a chunk beside a round"
    prompts = sum(len(case.prompt) for case in cases)
    assert sum(sum(r.prefilled.values()) for r in records) <= prompts  # shared prefixes are spared


def test_first_come_first_served():
    engine = tiny_engine(max_running=2, shares_prefixes=False)
    for number in range(5):
        engine.add_request(random_ids(10, number), 6, ignore_eos=True, request_id=str(number))
    order = []
    while engine.has_work:
        record = engine.step()
        assert record.num_requests <= 2
        order += record.finished
    assert order == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("budget", [5, 8])
def test_nobody_starves_when_the_budget_is_short(budget):
    """Rounds of five rows each: only one or so fits a step, and all get their turns."""
    cases = make_cases(4, seed=8, methods=["trees"])
    for case in cases:
        case.depth = 4
    outcome, records = run_all(tiny_engine(token_budget=budget), cases)
    assert_expected(outcome)
    turns = {name: [] for name in outcome}
    for number, record in enumerate(records):
        for name in {*record.rounds, *record.prefilled}:
            turns[name].append(number)
    longest = max(b - a for own in turns.values() for a, b in zip(own, own[1:], strict=False))
    assert 1 < longest <= 2 * len(cases)


def test_a_long_prompt_does_not_stop_the_others():
    engine = tiny_engine(token_budget=16)
    engine.add_request(random_ids(8, 0), 40, ignore_eos=True, request_id="short")
    engine.step()
    engine.add_request(random_ids(150, 1), 4, ignore_eos=True, request_id="long")
    steps = [engine.step() for _ in range(8)]
    assert all("short" in step.rounds and "long" in step.prefilled for step in steps)


@pytest.mark.parametrize("shares_prefixes", [True, False])
@pytest.mark.parametrize("page_size, pages", [(1, 96), (4, 24), (16, 6)])
def test_preemption_changes_no_token(page_size, pages, shares_prefixes):
    cases = make_cases(7, seed=12)
    engine = tiny_engine(
        num_kv_tokens=page_size * pages, page_size=page_size, shares_prefixes=shares_prefixes
    )
    outcome, records = run_all(engine, cases)
    assert_expected(outcome)
    assert sum(len(record.preempted) for record in records) > 0
    assert max(record.num_pages for record in records) <= pages


def test_the_youngest_is_preempted_and_its_output_kept():
    engine = tiny_engine(num_kv_tokens=32, page_size=4, shares_prefixes=False)
    prompts = {"old": random_ids(12, 0), "young": random_ids(5, 1)}
    for name, prompt in prompts.items():
        engine.add_request(prompt, 18, ignore_eos=True, request_id=name)
    preempted, results = [], {}
    while engine.has_work:
        record = engine.step()
        preempted += record.preempted
        for name in record.finished:
            results[name] = engine.take_result(name)
    assert set(preempted) == {"young"}
    assert list(results) == ["old", "young"]
    assert all(results[name].token_ids == plain(prompts[name], 18) for name in prompts)
    assert len(results["young"].rounds) == 17  # what was computed again is no round


def test_shared_prefixes_are_computed_once():
    prompt = random_ids(50, 4)
    engine = tiny_engine()
    engine.generate(prompt, 4, ignore_eos=True)
    name = engine.add_request(prompt, 4, ignore_eos=True)
    assert engine.step().prefilled == {name: 2}  # 48 tokens fill three pages
    private = tiny_engine(shares_prefixes=False)
    private.generate(prompt, 4, ignore_eos=True)
    name = private.add_request(prompt, 4, ignore_eos=True)
    assert private.step().prefilled == {name: 50}


@pytest.mark.parametrize("when", [0, 1, 4])
def test_abort_frees_everything_and_disturbs_nobody(when):
    engine = tiny_engine(page_size=4)
    stay = Case(random_ids(20, 2), 25, SamplingParams(0.8, seed=5), "ngram", 4, 0)
    stay.expected = plain(stay.prompt, 25, sampling=stay.sampling)
    kept = stay.add_to(engine)
    proposer = RandomTrees([], 0)
    gone = engine.add_request(random_ids(30, 3), 60, proposer=proposer, depth=5, ignore_eos=True)
    for _ in range(when):
        engine.step()
    partial = engine.abort(gone)
    check_integrity(engine.pool, engine.sequences)
    assert partial.finish_reason == "abort" and len(partial.token_ids) < 60
    assert partial.token_ids == plain(random_ids(30, 3), 60)[: len(partial.token_ids)]
    assert proposer.is_forgotten
    while engine.has_work:
        assert gone not in engine.step().rounds
    assert engine.take_result(kept).token_ids == stay.expected
    assert engine.pool.allocator.num_owned == 0
    with pytest.raises(InputError, match="unknown request id"):
        engine.abort(gone)


def test_a_failing_proposer_takes_no_pages_with_it():
    class Broken(RandomTrees):
        def propose(self, context_ids, num_draft_tokens):
            raise ZeroDivisionError

    engine = tiny_engine()
    with pytest.raises(ZeroDivisionError):
        engine.generate(random_ids(8, 0), 9, proposer=Broken([], 0), depth=3, ignore_eos=True)
    assert not engine.has_work and engine.pool.allocator.num_owned == 0
    assert engine.generate(random_ids(8, 0), 9, ignore_eos=True).token_ids


@pytest.mark.parametrize(
    "engine, request_, message",
    [
        ({}, dict(request_id="a"), "request id 'a' is in use"),
        ({}, dict(stop=[""]), "stop string must not be empty"),
        (dict(token_budget=4), dict(depth=4), "depth 4 needs a token budget of 5, the engine has"),
        (dict(num_kv_tokens=32), dict(max_new_tokens=30), "exceed the KV pool of 32; give"),
    ],
)
def test_what_can_never_run_is_refused(engine, request_, message):
    engine = tiny_engine(**engine)
    engine.add_request([1, 2, 3], 2, request_id="a")
    with pytest.raises(InputError, match=message):
        engine.add_request(**(dict(prompt_ids=[1, 2, 3], max_new_tokens=4) | request_))
    with pytest.raises(InputError, match="not finished"):
        engine.take_result("a")


def test_no_work_and_no_room_are_refused():
    with pytest.raises(InputError, match="add one first"):
        tiny_engine().step()
    with pytest.raises(InputError, match="got 0 and 512"):
        tiny_engine(max_running=0)
