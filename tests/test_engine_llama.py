"""The forward pass against transformers' own classes, and against itself in other shapes."""

import pytest
import torch

from lessons.lib.model.llama import KVCache
from lessons.lib.model.loader import load_model
from tests.engine_models import LLAMA3_ROPE, reference_model, write_folder

CASES = {
    "llama": dict(kind="llama"),
    "llama tied": dict(kind="llama", tied=True),
    "llama, rope scaling": dict(kind="llama", rope_parameters=LLAMA3_ROPE),
    "llama, one kv head": dict(kind="llama", num_key_value_heads=1),
    "llama, no groups": dict(kind="llama", num_key_value_heads=6),
    "qwen3": dict(kind="qwen3"),
    "qwen3 tied": dict(kind="qwen3", tied=True),
}


def relative_error(found, expected):
    """Largest difference on the scale of the reference; 1 for zeros, large for a wrong answer."""
    return float((found.float() - expected).abs().max() / expected.abs().max())


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    loaded = {}

    def get(case):
        if case not in loaded:
            reference = reference_model(**CASES[case])
            folder = write_folder(reference, tmp_path_factory.mktemp("model"))
            loaded[case] = reference, load_model(folder, "float32", "cpu")[0]
        return loaded[case]

    return get


def tokens(batch, count, seed=0):
    return torch.randint(0, 97, (batch, count), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("case", CASES)
def test_logits_equal_transformers(pairs, case):
    reference, model = pairs(case)
    ids = tokens(3, 100)
    with torch.inference_mode():
        expected = reference(ids).logits
    found = model.forward(ids, model.new_cache(3, 100))
    assert relative_error(found, expected) < 1e-5
    # The comparison sees what it should: another token, another weight, another position.
    other = ids.clone()
    other[:, 10] = (other[:, 10] + 1) % 97
    assert relative_error(model.forward(other, model.new_cache(3, 100)), expected) > 1e-2
    assert relative_error(torch.zeros_like(found), expected) == 1


@pytest.mark.parametrize("case", ["llama", "qwen3"])
@pytest.mark.parametrize("chunks", [[40], [1] * 40, [7, 1, 20, 12]])
def test_chunks_equal_one_prefill(pairs, case, chunks):
    model = pairs(case)[1]
    ids = tokens(2, 40)
    whole = model.forward(ids, model.new_cache(2, 40))
    cache = model.new_cache(2, 64)
    parts = [model.forward(part, cache) for part in ids.split(chunks, dim=1)]
    assert cache.length == 40
    assert relative_error(torch.cat(parts, dim=1), whole) < 1e-5


def test_truncated_cache_equals_a_fresh_prefill(pairs):
    model = pairs("qwen3")[1]
    ids, rejected, following = tokens(2, 20), tokens(2, 8, seed=1), tokens(2, 5, seed=2)
    cache, fresh = model.new_cache(2, 40), model.new_cache(2, 40)
    model.forward(ids, cache)
    model.forward(rejected, cache)
    cache.truncate(20)
    model.forward(ids, fresh)
    again, expected = model.forward(following, cache), model.forward(following, fresh)
    assert torch.equal(again, expected)
    for stored, reference in zip(cache.keys + cache.values, fresh.keys + fresh.values, strict=True):
        assert torch.equal(stored[:, :, :25], reference[:, :, :25])


def test_leaving_rejected_tokens_in_the_cache_shows(pairs):
    model = pairs("qwen3")[1]
    ids, rejected, following = tokens(2, 20), tokens(2, 8, seed=1), tokens(2, 5, seed=2)
    dirty, clean = model.new_cache(2, 40), model.new_cache(2, 40)
    model.forward(torch.cat((ids, rejected), 1), dirty)
    model.forward(ids, clean)
    difference = relative_error(model.forward(following, dirty), model.forward(following, clean))
    assert difference > 1e-2


def test_last_logits_alone(pairs):
    model = pairs("llama")[1]
    ids = tokens(2, 9)
    every = model.forward(ids, model.new_cache(2, 9))
    last = model.forward(ids, model.new_cache(2, 9), num_logits=2)
    assert last.shape == (2, 2, 97)
    assert relative_error(last, every[:, -2:]) < 1e-5


def test_overfull_cache_and_bad_truncation_are_refused(pairs):
    model = pairs("llama")[1]
    cache = model.new_cache(1, 8)
    with pytest.raises(AssertionError, match="8 tokens cannot hold 9"):
        model.forward(tokens(1, 9), cache)
    model.forward(tokens(1, 5), cache)
    with pytest.raises(AssertionError):
        cache.truncate(6)


def test_bfloat16_is_near_float32(pairs, tmp_path):
    reference, _ = pairs("llama")
    model, _ = load_model(write_folder(reference, tmp_path), "bfloat16", "cpu")
    ids = tokens(1, 30)
    with torch.inference_mode():
        expected = reference(ids).logits
    found = model.forward(ids, model.new_cache(1, 30))
    assert found.dtype == torch.bfloat16
    assert 1e-5 < relative_error(found, expected) < 0.1


def test_cache_size_is_what_the_config_says(pairs):
    config = pairs("llama")[1].config
    cache = KVCache(config, 2, 10, torch.bfloat16, torch.device("cpu"))
    stored = sum(t.numel() * t.element_size() for t in cache.keys + cache.values)
    assert stored == 2 * 10 * config.kv_bytes_per_token(2)


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["llama", "qwen3"])
def test_logits_on_cuda_equal_transformers(pairs, case, tmp_path):
    reference, _ = pairs(case)
    model, _ = load_model(write_folder(reference, tmp_path), "float32", "cuda")
    ids = tokens(2, 60)
    with torch.inference_mode():
        expected = reference(ids).logits
    cache = model.new_cache(2, 60)
    parts = [model.forward(part.cuda(), cache) for part in ids.split([50, 1, 9], dim=1)]
    assert relative_error(torch.cat(parts, dim=1).cpu(), expected) < 1e-4
