"""The forward pass against transformers' own classes, and against itself in other shapes."""

import pytest
import torch

from kernels.kv_rollback import rollback_trees_kv
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.loader import load_model
from lessons.lib.tree import DraftTree
from tests.engine_models import (
    LLAMA3_ROPE,
    append,
    empty_sequences,
    fresh_logits,
    reference_model,
    write_folder,
)

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
    found = fresh_logits(model, ids)
    assert relative_error(found, expected) < 1e-5
    # The comparison sees what it should: another token, another weight, another position.
    other = ids.clone()
    other[:, 10] = (other[:, 10] + 1) % 97
    assert relative_error(fresh_logits(model, other), expected) > 1e-2
    assert relative_error(torch.zeros_like(found), expected) == 1


@pytest.mark.parametrize("case", ["llama", "qwen3"])
@pytest.mark.parametrize("chunks", [[40], [1] * 40, [7, 1, 20, 12]])
def test_chunks_equal_one_prefill(pairs, case, chunks):
    model = pairs(case)[1]
    ids = tokens(2, 40)
    whole = fresh_logits(model, ids)
    pool, sequences = empty_sequences(model, 2, 64)
    parts = [append(model, pool, sequences, part) for part in ids.split(chunks, dim=1)]
    assert [kv.length for kv in sequences] == [40, 40]
    assert relative_error(torch.cat(parts, dim=1), whole) < 1e-5


def kv_of(pool, sequences, length):
    """Keys and values of all layers, [batch, length, ...] each."""
    tables, _ = pool.prepare_block_tables(sequences)
    return [part for layer in range(3) for part in pool.gather_kv(layer, tables, length)]


def test_rejected_tokens_leave_no_trace(pairs):
    model = pairs("qwen3")[1]
    ids, rejected, following = tokens(2, 20), tokens(2, 8, seed=1), tokens(2, 5, seed=2)
    pool, sequences = empty_sequences(model, 2, 40)
    append(model, pool, sequences, ids)
    trees = [DraftTree.chain(row) for row in rejected.tolist()]
    model.forward(prepare_batch(pool, list(zip(sequences, trees, strict=True))), pool)
    rollback_trees_kv(pool, [(kv, tree, []) for kv, tree in zip(sequences, trees, strict=True)])
    fresh_pool, fresh = empty_sequences(model, 2, 40)
    append(model, fresh_pool, fresh, ids)
    again = append(model, pool, sequences, following)
    assert relative_error(again, append(model, fresh_pool, fresh, following)) < 1e-6
    pairs_of_kv = zip(kv_of(pool, sequences, 25), kv_of(fresh_pool, fresh, 25), strict=True)
    assert all(relative_error(stored, expected) < 1e-6 for stored, expected in pairs_of_kv)


def test_leaving_rejected_tokens_in_the_pool_shows(pairs):
    model = pairs("qwen3")[1]
    ids, rejected, following = tokens(2, 20), tokens(2, 8, seed=1), tokens(2, 5, seed=2)
    dirty = fresh_logits(model, torch.cat((ids, rejected, following), 1))[:, -5:]
    clean = fresh_logits(model, torch.cat((ids, following), 1))[:, -5:]
    assert relative_error(dirty, clean) > 1e-2


def test_last_logits_alone(pairs):
    model = pairs("llama")[1]
    ids = tokens(2, 9)
    every = fresh_logits(model, ids)
    last = append(model, *empty_sequences(model, 2, 9), ids, num_logits=2)
    assert last.shape == (2, 2, 97)
    assert relative_error(last, every[:, -2:]) < 1e-5


def test_bfloat16_is_near_float32(pairs, tmp_path):
    reference, _ = pairs("llama")
    model, _ = load_model(write_folder(reference, tmp_path), "bfloat16", "cpu")
    ids = tokens(1, 30)
    with torch.inference_mode():
        expected = reference(ids).logits
    found = fresh_logits(model, ids)
    assert found.dtype == torch.bfloat16
    assert 1e-5 < relative_error(found, expected) < 0.1


def test_pool_size_is_what_the_config_says(pairs):
    model = pairs("llama")[1]
    pool = model.new_pool(20, page_size=8)
    assert pool.allocator.num_pages == 3
    assert pool.bytes_per_token == model.config.kv_bytes_per_token(4)


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["llama", "qwen3"])
def test_logits_on_cuda_equal_transformers(pairs, case, tmp_path):
    reference, _ = pairs(case)
    model, _ = load_model(write_folder(reference, tmp_path), "float32", "cuda")
    ids = tokens(2, 60)
    with torch.inference_mode():
        expected = reference(ids).logits
    pool, sequences = empty_sequences(model, 2, 60)
    parts = [append(model, pool, sequences, part) for part in ids.split([50, 1, 9], dim=1)]
    assert relative_error(torch.cat(parts, dim=1).cpu(), expected) < 1e-4
