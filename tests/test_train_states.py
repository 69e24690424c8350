"""The target's view of texts on disk: what was kept is what the target says, and for it alone."""

import dataclasses

import pytest
import torch

from lessons.lib.train import target_cache
from lessons.lib.train.data import Sample
from lessons.lib.train.target_cache import TargetCache
from lessons.lib.train.target_pass import collate, run_target
from tests.batch_kit import tiny_model
from tests.train_kit import tiny_samples

LAYERS = (1, 3)


def some_texts():
    return [
        Sample(sample.token_ids[: 12 + 3 * index], sample.prompt_len, "tiny")
        for index, sample in enumerate(tiny_samples()[:5])
    ]


def cache_in(folder, samples=None, layers=LAYERS):
    return TargetCache(tiny_model("llama")[0], samples or some_texts(), layers, folder, top_k=4)


def test_what_is_read_is_what_the_target_says(tmp_path):
    samples = [some_texts()[index] for index in (3, 0)]
    rows = run_target(tiny_model("llama")[0], samples, LAYERS, 4)
    expected = collate(samples, rows, LAYERS)
    for _ in range(2):  # made, then read again
        found = cache_in(tmp_path).batch([3, 0])
        assert torch.equal(found.token_ids, expected.token_ids)
        torch.testing.assert_close(found.states, expected.states, atol=1e-5, rtol=1e-4)
        assert torch.equal(found.top_ids, expected.top_ids)
        torch.testing.assert_close(found.top_probs, expected.top_probs, atol=1e-3, rtol=1e-3)
        assert found.states.abs().sum() > 1


def test_the_target_runs_once_a_text(tmp_path, monkeypatch):
    counts = []

    def counted(model, samples, *rest):
        counts.append(len(samples))
        return run_target(model, samples, *rest)

    monkeypatch.setattr(target_cache, "run_target", counted)
    cache_in(tmp_path).batch([1, 2])
    cache_in(tmp_path).batch([2, 1, 4])
    cache = cache_in(tmp_path)
    cache.fill(batch_size=2)
    cache.batch(range(5))
    assert counts == [2, 1, 2]


def test_a_text_that_was_not_finished_is_run_again(tmp_path, monkeypatch):
    cache = cache_in(tmp_path)
    monkeypatch.setattr(cache, "_top_probs", None)  # fails on the way
    with pytest.raises(TypeError):
        cache.batch([0])
    again = cache_in(tmp_path).batch([0])
    assert float(again.top_probs.sum()) > 1


def test_no_other_targets_or_texts_states_are_read(tmp_path):
    first = cache_in(tmp_path)
    longer = [dataclasses.replace(s, prompt_len=s.prompt_len - 1) for s in some_texts()]
    others = [cache_in(tmp_path, longer), cache_in(tmp_path, layers=(3, 1))]
    model, _ = tiny_model("qwen3")
    others.append(TargetCache(model, some_texts(), LAYERS, tmp_path, top_k=4))
    assert len({cache.folder for cache in [first, *others]}) == 4
    assert cache_in(tmp_path).folder == first.folder
