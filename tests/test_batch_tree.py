"""One forward over a batch of trees gives every node the logits of its path run alone."""

import random

import pytest
import torch

from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.loader import load_model
from lessons.lib.tree import DraftTree, random_tree
from tests.batch_kit import VOCABULARY, random_ids, relative_error
from tests.engine_models import append, empty_sequences, reference_model, write_folder


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def model(request, tmp_path_factory):
    reference = reference_model(request.param, max_position_embeddings=1024)
    folder = write_folder(reference, tmp_path_factory.mktemp("model"))
    return load_model(folder, "float32", "cpu")[0]


def filled(model, contexts, page_size):
    """Sequences with random texts of these lengths behind them, and the pool they are in."""
    room = sum(max(contexts) + 80 for _ in contexts)
    pool, sequences = empty_sequences(model, len(contexts), room, page_size)
    for number, (kv, length) in enumerate(zip(sequences, contexts, strict=True)):
        if length:
            append(model, pool, [kv], torch.tensor([random_ids(length, number)]))
    return pool, sequences


def logits_by_path(model, pool, kv, tree):
    """Every leaf's path as a chain behind a fork of the context -> logits [num_nodes, vocab]."""
    leaves = [node for node in range(tree.num_nodes) if not tree.children[node]]
    found = torch.zeros(tree.num_nodes, VOCABULARY)
    for leaf in leaves:
        path, twin = tree.path(leaf), pool.fork(kv)
        ids = torch.tensor([[tree.token_ids[node] for node in path]])
        found[list(path)] = append(model, pool, [twin], ids)[0]
        pool.release(twin)
    return found


@pytest.mark.parametrize("page_size", [1, 4, 16])
@pytest.mark.parametrize("batch", [1, 3, 8])
def test_nodes_equal_their_paths(model, batch, page_size):
    rng = random.Random(100 * batch + page_size)
    contexts = [rng.choice([0, 1, 15, 16, 17, 100, 500]) for _ in range(batch)]
    sizes = [rng.choice([1, 2, 7, 30, 64]) for _ in range(batch)]
    sizes[0] = 64
    trees = [random_tree(size, VOCABULARY, rng) for size in sizes]
    pool, sequences = filled(model, contexts, page_size)
    expected = [
        logits_by_path(model, pool, kv, tree) for kv, tree in zip(sequences, trees, strict=True)
    ]
    found = model.forward(prepare_batch(pool, list(zip(sequences, trees, strict=True))), pool)
    for one, other in zip(found.split(sizes), expected, strict=True):
        assert relative_error(one, other) < 1e-4


def test_the_comparison_sees_a_wrong_mask(model):
    tree = DraftTree((5, 6, 7, 8), (-1, 0, 0, 1))
    pool, (kv,) = filled(model, [20], 16)
    expected = logits_by_path(model, pool, kv, tree)
    as_chain = model.forward(prepare_batch(pool, [(kv, DraftTree.chain(tree.token_ids))]), pool)
    assert relative_error(as_chain[:2], expected[:2]) < 1e-4  # these two have the same ancestors
    assert relative_error(as_chain[2:], expected[2:]) > 1e-2


def test_scattered_pages_equal_contiguous_ones(model):
    """What a request's pages look like must not show: read in place or gathered."""
    ids = random_ids(40, 1)
    pool, sequences = empty_sequences(model, 2, 80, 4)
    for start in range(0, 36, 4):  # the two take pages in turns
        for kv in sequences:
            append(model, pool, [kv], torch.tensor([ids[start : start + 4]]))
    alone_pool, (alone,) = empty_sequences(model, 1, 80, 4)
    append(model, alone_pool, [alone], torch.tensor([ids[:36]]))
    assert sequences[0].block_table != sorted(range(9))
    tail = torch.tensor([ids[36:]])
    expected = append(model, alone_pool, [alone], tail)
    assert relative_error(append(model, pool, sequences, tail.repeat(2, 1)), expected) < 1e-5
