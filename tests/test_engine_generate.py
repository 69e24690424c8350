"""The loop: same tokens with and without drafts, and nothing past a stop or a limit."""

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.ngram import NgramProposer
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from lessons.lib.sampling import SeededRandom, logits_to_probs
from tests.engine_models import fresh_logits, reference_model, write_folder

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = write_folder(reference_model("qwen3"), tmp_path_factory.mktemp("model"))
    return Engine(*load_model(folder, "float32", "cpu"))


class Oracle:
    """Proposes a known continuation with some tokens spoiled; notes what the engine tells it."""

    memory_bytes = 1000

    def __init__(self, prompt, answer, spoil=(), limit=99):
        self.text, self.start = [*prompt, *answer], len(prompt)
        self.spoil, self.limit = spoil, limit
        self.asked, self.observed, self.forgotten = [], [], 0

    def propose(self, context_ids, num_draft_tokens):
        self.asked.append(num_draft_tokens)
        end = len(context_ids) + min(num_draft_tokens, self.limit)
        places = range(len(context_ids), min(end, len(self.text)))
        spoiled = [(self.text[i] + (i - self.start in self.spoil)) % 97 for i in places]
        return DraftProposal(spoiled)

    def observe(self, token_ids):
        self.observed += token_ids

    def forget(self):
        self.forgotten += 1


def plain(engine, count, **settings):
    return engine.generate(PROMPT, count, ignore_eos=True, **settings).token_ids


@pytest.mark.parametrize("depth", [1, 2, 3, 7, 30])
@pytest.mark.parametrize("spoil", [(), (2, 3, 9), range(40), range(0, 40, 4)])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_change_no_token(engine, depth, spoil, temperature):
    sampling = SamplingParams(temperature, seed=4)
    answer = plain(engine, 40, sampling=sampling)
    assert len(set(answer)) > 5  # an answer of one repeated token would prove little
    oracle = Oracle(PROMPT, answer, spoil)
    result = engine.generate(PROMPT, 40, sampling, oracle, depth, ignore_eos=True)
    assert result.token_ids == answer
    assert oracle.observed == answer[1:] and oracle.forgotten == 1
    assert sum(record.emitted for record in result.rounds) == 39
    if not spoil:
        assert len(result.rounds) == -(-39 // (depth + 1))
    if spoil == range(40):
        assert all(record.accepted == 0 for record in result.rounds)


def test_ngram_equals_none_at_any_depth_and_temperature(engine):
    for sampling in (SamplingParams(), SamplingParams(0.7, top_k=3, seed=2)):
        expected = plain(engine, 60, sampling=sampling)
        for depth in (1, 4, 9):
            result = engine.generate(
                PROMPT, 60, sampling, NgramProposer(min_ngram=1), depth, ignore_eos=True
            )
            assert result.token_ids == expected
            assert any(record.proposed for record in result.rounds)


def test_a_failed_request_is_forgotten_too(engine):
    oracle = Oracle(PROMPT, plain(engine, 9))
    oracle.observe = lambda token_ids: 1 / 0
    with pytest.raises(ZeroDivisionError):
        engine.generate(PROMPT, 9, proposer=oracle, depth=2, ignore_eos=True)
    assert oracle.forgotten == 1


def test_more_depth_than_proposal_verifies_what_there_is(engine):
    answer = plain(engine, 30)
    result = engine.generate(
        PROMPT, 30, proposer=Oracle(PROMPT, answer, limit=2), depth=9, ignore_eos=True
    )
    assert result.token_ids == answer
    assert {record.proposed for record in result.rounds[:-1]} == {2}


def test_nothing_proposed_decodes_one_token(engine):
    silent = Oracle(PROMPT, [], limit=0)
    result = engine.generate(PROMPT, 12, proposer=silent, depth=4, ignore_eos=True)
    assert result.token_ids == plain(engine, 12)
    assert [(r.proposed, r.accepted, r.emitted) for r in result.rounds] == [(0, 0, 1)] * 11


def test_no_draft_is_asked_for_beyond_the_length_limit(engine):
    answer = plain(engine, 9)
    oracle = Oracle(PROMPT, answer)
    result = engine.generate(PROMPT, 7, proposer=oracle, depth=4, ignore_eos=True)
    assert result.token_ids == answer[:7]
    assert oracle.asked == [4]  # 1 token of the prefill, 5 of the round, 1 without a draft
    assert [record.emitted for record in result.rounds] == [5, 1]


@pytest.mark.parametrize("stop_at", range(1, 9))
@pytest.mark.parametrize("depth", [0, 1, 4, 8])
def test_nothing_leaks_past_a_stop_token(engine, stop_at, depth, monkeypatch):
    answer = plain(engine, 20)
    stop = answer[stop_at]
    if stop in answer[:stop_at]:
        pytest.skip("the token occurs earlier")
    monkeypatch.setattr(engine.tokenizer, "eos_token_ids", frozenset({stop}))
    result = engine.generate(PROMPT, 20, proposer=Oracle(PROMPT, answer), depth=depth)
    assert result.token_ids == answer[: stop_at + 1]
    assert sum(record.emitted for record in result.rounds) == stop_at
    ignored = engine.generate(PROMPT, 20, ignore_eos=True)
    assert ignored.token_ids == answer


def test_stop_as_the_first_token_gives_no_round(engine, monkeypatch):
    answer = plain(engine, 2)
    monkeypatch.setattr(engine.tokenizer, "eos_token_ids", frozenset({answer[0]}))
    result = engine.generate(PROMPT, 20)
    assert result.token_ids == answer[:1] and result.rounds == []


class NoisyTarget:
    """The target with noise on its logits: a law of its own for the ratio rule to correct."""

    memory_bytes = 0

    def __init__(self, engine, sampling):
        self.model = engine.model
        self.sampling = sampling
        self.noise = 2 * torch.randn(97, generator=torch.Generator().manual_seed(0))
        self.random = SeededRandom(sampling.seed, is_draft=True)

    def propose(self, context_ids, num_draft_tokens):
        text, laws = list(context_ids), []
        for _ in range(num_draft_tokens):
            logits = fresh_logits(self.model, torch.tensor([text]))[0, -1]
            laws.append(logits_to_probs(logits + self.noise, self.sampling))
            text.append(self.random.draw(laws[-1], len(text)))
        return DraftProposal(text[len(context_ids) :], torch.stack(laws))

    def observe(self, token_ids):
        pass

    def forget(self):
        pass


def test_sampled_drafts_leave_the_law_of_the_text_unchanged(engine):
    """First two sampled tokens over many seeds, against the model's own conditional laws."""
    count, setting = 400, dict(temperature=5.0, top_k=6)
    drafted = torch.zeros(97)
    accepted = 0
    for seed in range(count):
        sampling = SamplingParams(seed=seed, **setting)
        result = engine.generate(
            PROMPT, 3, sampling, NoisyTarget(engine, sampling), 1, ignore_eos=True
        )
        drafted[result.token_ids[1]] += 1
        accepted += sum(record.accepted for record in result.rounds)
    first = logits_to_probs(
        fresh_logits(engine.model, torch.tensor([PROMPT]))[0, -1], SamplingParams(**setting)
    )
    law = torch.zeros(97)
    for token in first.nonzero().flatten().tolist():
        logits = fresh_logits(engine.model, torch.tensor([[*PROMPT, token]]))[0, -1]
        law += first[token] * logits_to_probs(logits, SamplingParams(**setting))
    # Mean total variation of a true sample is at most sqrt(36 / (2 pi n)) = 0.12 here.
    assert float((drafted / count - law).abs().sum()) / 2 < 0.16
    assert float((law.roll(1) - law).abs().sum()) / 2 > 0.3
    assert 0.1 * count < accepted < 0.95 * count  # both branches of the rule are taken


def test_memory_counts_slots_logits_laws_and_state(engine):
    answer = plain(engine, 30)
    slot = engine.model.config.kv_bytes_per_token(4)
    greedy = engine.generate(PROMPT, 30, proposer=Oracle(PROMPT, answer), depth=5, ignore_eos=True)
    assert greedy.extra_memory_bytes == 5 * (slot + 97 * 4) + 1000
    sampling = SamplingParams(1.0)
    drafter = NoisyTarget(engine, sampling)
    drawn = engine.generate(PROMPT, 30, sampling, drafter, 5, ignore_eos=True)
    assert drawn.extra_memory_bytes == 5 * (slot + 97 * 4 + 2 * 97 * 4)
    assert engine.generate(PROMPT, 30, ignore_eos=True).extra_memory_bytes == 0


def test_times_add_up(engine):
    result = engine.generate(PROMPT, 20, proposer=Oracle(PROMPT, plain(engine, 20)), depth=3)
    assert 0 < sum(record.total_ms for record in result.rounds) <= result.decode_ms
    assert all(min(r.draft_ms, r.verify_ms, r.overhead_ms) > 0 for r in result.rounds)
    assert result.prefill_ms > 0


def test_long_prompts_are_prefilled_in_chunks(engine):
    prompt = [(7 * i) % 97 for i in range(50)]
    expected = engine.generate(prompt, 10, ignore_eos=True).token_ids
    chunked = Engine(engine.model, engine.tokenizer, token_budget=16)
    assert chunked.generate(prompt, 10, ignore_eos=True).token_ids == expected


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(prompt_ids=[]), "prompt holds no tokens"),
        (dict(max_new_tokens=0), "max_new_tokens must be 1 or more, got 0"),
        (dict(depth=-1), "depth must be 0 or more, got -1"),
        (dict(max_new_tokens=249), "exceed the model's context of 256"),
    ],
)
def test_bad_requests(engine, arguments, message):
    with pytest.raises(InputError, match=message):
        engine.generate(**(dict(prompt_ids=PROMPT, max_new_tokens=4) | arguments))
