"""Where an answer ends: end tokens and stop strings inside an accepted block, length, streams."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons.lib.config import SamplingParams
from lessons.lib.stopping import find_stop, safe_length, tokens_until_stop
from tests.batch_kit import RandomTrees, random_ids, tiny_engine

PROMPT = random_ids(12, 21)
COUNT = 24
SAMPLING = SamplingParams(2.0, seed=3)  # the greedy answer of a random model goes round in circles


class Perfect(RandomTrees):
    """Chains without a fault: a stop always falls inside an accepted block."""

    def propose(self, context_ids, num_draft_tokens):
        start = len(context_ids)
        chain = self.text[start : start + num_draft_tokens]
        proposal = super().propose(context_ids, 0)
        return type(proposal)(chain)


@pytest.fixture(scope="module")
def answer():
    ids = tiny_engine().generate(PROMPT, COUNT, SAMPLING, ignore_eos=True).token_ids
    assert len(set(ids)) > 10
    return ids


@pytest.fixture
def engine():
    return tiny_engine(page_size=4)


def drafted(answer, kind=Perfect):
    return kind([*PROMPT, *answer], 0)


@pytest.mark.parametrize("kind", [Perfect, RandomTrees])
@pytest.mark.parametrize("place", range(1, 20, 3))
def test_end_token_inside_a_block(engine, answer, kind, place, monkeypatch):
    stop = answer[place]
    first = answer.index(stop)
    monkeypatch.setattr(engine.tokenizer, "eos_token_ids", frozenset({stop}))
    proposer = drafted(answer, kind)
    result = engine.generate(PROMPT, COUNT, SAMPLING, proposer=proposer, depth=8)
    assert result.token_ids == answer[: first + 1]
    assert result.finish_reason == "stop"
    assert proposer.observed == answer[1 : first + 1]
    assert engine.pool.allocator.num_owned == 0


@pytest.mark.parametrize("kind", [Perfect, RandomTrees])
@pytest.mark.parametrize("count", range(1, 12))
def test_length_inside_a_block(engine, answer, kind, count):
    result = engine.generate(PROMPT, count, SAMPLING, proposer=drafted(answer, kind), depth=5)
    assert result.token_ids == answer[:count] and result.finish_reason == "length"


@pytest.mark.parametrize("depth", [0, 3, 8])
@pytest.mark.parametrize("place", range(2, 20, 3))
def test_stop_string_inside_a_block(engine, answer, depth, place):
    """The stop begins in the middle of one token and ends in the middle of the next."""
    decode = engine.tokenizer.decode
    stop = decode(answer[place : place + 2])[1:-1]
    whole = decode(answer)
    result = engine.generate(
        PROMPT,
        COUNT,
        SAMPLING,
        proposer=drafted(answer),
        depth=depth,
        ignore_eos=True,
        stop=["no", stop],
    )
    assert result.text == whole[: whole.index(stop)]
    assert result.finish_reason == "stop"
    assert result.token_ids == answer[: len(result.token_ids)]
    assert stop in decode(result.token_ids) and stop not in decode(result.token_ids[:-1])


@pytest.mark.parametrize("depth", [0, 4])
def test_a_stream_shows_nothing_it_must_take_back(engine, answer, depth):
    whole = engine.tokenizer.decode(answer)
    stop = engine.tokenizer.decode(answer[10:13])
    settings = dict(sampling=SAMPLING, proposer=drafted(answer), depth=depth, ignore_eos=True)
    pieces = list(engine.stream(PROMPT, COUNT, stop=[stop], **settings))
    assert "".join(pieces) == whole[: whole.index(stop)]
    assert len(pieces) > 1
    settings["proposer"] = drafted(answer)
    assert "".join(engine.stream(PROMPT, COUNT, **settings)) == whole


def test_leaving_a_stream_aborts_the_request(engine):
    stream = engine.stream(PROMPT, COUNT, ignore_eos=True)
    next(stream)
    assert engine.has_work
    stream.close()
    assert not engine.has_work and engine.pool.allocator.num_owned == 0


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_what_a_stream_shows_stays(text, stop):
    """However the text goes on, no stop string begins before the place that was shown."""
    if find_stop(text, stop) is not None:
        return
    safe = safe_length(text, stop)
    for tail in ("aaaa", "bbbb", "abab", "baba", "aabb", "bbaa", "abba", "baab"):
        place = find_stop(text + tail, stop)
        assert place is None or place >= safe
    assert len(text) - safe < max((len(word) for word in stop), default=1)


def test_incomplete_characters_are_held_back():
    assert safe_length("caf\ufffd", []) == 3
    assert safe_length("caf\ufffd", ["fx"]) == 2
    assert safe_length("aab", ["ba", "aaa"]) == 2  # two stops do not add up


@given(st.lists(st.integers(0, 1), min_size=1, max_size=10), st.text("ab", min_size=1, max_size=3))
def test_tokens_until_stop_by_definition(ids, word):
    def decode(token_ids):
        return "".join("ab"[i] for i in token_ids)

    for num_new in range(1, len(ids) + 1):
        old = ids[: len(ids) - num_new]
        if word in decode(old):
            continue
        counts = [n for n in range(1, num_new + 1) if word in decode(ids[: len(old) + n])]
        assert tokens_until_stop(ids, num_new, [word], decode) == (counts[0] if counts else None)
