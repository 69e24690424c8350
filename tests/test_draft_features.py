"""Hidden states that reach a drafter are those of transformers' model on the committed text."""

import functools

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.model.features import FeatureCapture, check_layer_ids, eagle3_layers
from tests.batch_kit import Case as BatchCase
from tests.batch_kit import RandomTrees, random_ids, relative_error, run_all, tiny_engine
from tests.engine_models import reference_model

LAYERS = (1, 2, 0)  # not in ascending order, so that a swapped concatenation shows


class FeatureReader(RandomTrees):
    """Drafts random trees and keeps what it is given to read."""

    feature_layers = LAYERS

    def __init__(self, text, seed):
        super().__init__(text, seed)
        self.features, self.next_ids, self.num_restarts = [], [], 0

    def observe_features(self, start, features, next_token_ids):
        assert len(features) == len(next_token_ids)
        assert start <= len(self.features)
        self.num_restarts += start == 0
        self.features = self.features[:start] + list(features)
        self.next_ids = self.next_ids[:start] + list(next_token_ids)


class FeatureCase(BatchCase):
    def proposer(self):
        self.reader = FeatureReader([*self.prompt, *self.expected], self.seed)
        return self.reader


def make_feature_cases(count):
    cases = []
    for number in range(count):
        prompt = random_ids(20 + 7 * number, seed=number)
        case = FeatureCase(prompt, 25, SamplingParams(), "trees", 6, number)
        case.expected = tiny_engine().generate(prompt, 25, ignore_eos=True).token_ids
        cases.append(case)
    return cases


@functools.cache
def reference_hidden(text):
    """By layer id, [len(text), hidden] that enters the layer, from transformers."""
    model = reference_model("qwen3")
    with torch.no_grad():
        states = model(torch.tensor([text]), output_hidden_states=True).hidden_states
    return [state[0] for state in states]


def assert_features(case, result):
    text = [*case.prompt, *result.token_ids]
    reader = case.reader
    count = len(reader.features)
    assert count >= len(text) - 8  # the last round's rows are not handed out any more
    assert reader.next_ids == text[1 : count + 1]
    hidden = reference_hidden(tuple(text))
    expected = torch.cat([hidden[layer] for layer in LAYERS], -1)[:count]
    assert relative_error(torch.stack(reader.features), expected) < 2e-5
    shifted = torch.cat([hidden[layer + 1] for layer in LAYERS], -1)[:count]
    assert relative_error(torch.stack(reader.features), shifted) > 0.1  # an off-by-one would show


@pytest.mark.parametrize(
    "settings",
    [{}, {"token_budget": 9}, {"num_kv_tokens": 112, "page_size": 8}],
    ids=["whole", "chunked", "preempted"],
)
def test_a_reader_gets_the_features_of_every_committed_position(settings):
    cases = make_feature_cases(4)
    outcome, records = run_all(tiny_engine(**settings), cases)
    assert any(record.preempted for record in records) == ("num_kv_tokens" in settings)
    for case, result in outcome.values():
        assert result.token_ids == case.expected
        assert_features(case, result)
    if "num_kv_tokens" in settings:
        assert sum(case.reader.num_restarts for case in cases) > len(cases)


def test_a_reader_computes_a_prompt_whose_kv_another_one_left():
    engine = tiny_engine()
    prompt = random_ids(40, seed=1)
    engine.generate(prompt, 4, ignore_eos=True)
    (case,) = make_feature_cases(1)
    case.prompt = prompt
    case.expected = tiny_engine().generate(prompt, 25, ignore_eos=True).token_ids
    outcome, _ = run_all(engine, [case])
    for found in outcome.values():
        assert_features(*found)


def test_depth_0_reads_nothing():
    reader = FeatureReader([], 0)
    tiny_engine().generate(random_ids(9, seed=0), 4, proposer=reader, ignore_eos=True)
    assert reader.features == []


def test_layer_ids_and_their_errors():
    assert eagle3_layers(30) == (2, 15, 27)
    check_layer_ids((0, 3), 3)
    with pytest.raises(InputError, match="feature layer 4"):
        check_layer_ids((4,), 3)
    with pytest.raises(InputError, match="no hidden state of layer 1"):
        FeatureCapture([2]).rows([1], [0])


def test_the_engine_asks_for_nothing_without_a_reader(monkeypatch):
    engine, captures = tiny_engine(), []
    forward = engine.model.forward

    def spy(batch, pool, capture=None):
        captures.append(capture)
        return forward(batch, pool, capture)

    monkeypatch.setattr(engine.model, "forward", spy)
    try:
        engine.generate(random_ids(9, seed=0), 4, ignore_eos=True)
    finally:
        monkeypatch.undo()
    assert captures and not any(captures)
