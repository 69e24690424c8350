"""The draft tree: its mask is the closure of its parents, and bad input is named."""

import random

import pytest
import torch

from lessons.lib.tree import DraftTree, TreeError, batch_trees, check_mask, random_tree

#        0
#      1   2
#     3 4   5
FORK = DraftTree((9, 5, 6, 7, 8, 7), (-1, 0, 0, 1, 1, 2))


def unpack(words: torch.Tensor, num_nodes: int) -> torch.Tensor:
    bits = words[:, :, None] >> torch.arange(64) & 1
    return bits.flatten(1)[:, :num_nodes].bool()


def test_fork_by_hand():
    assert FORK.depths == (0, 1, 1, 2, 2, 2)
    assert FORK.children == ((1, 2), (3, 4), (5,), (), (), ())
    assert FORK.first_child == (1, 3, 5, -1, -1, -1)
    assert FORK.next_sibling == (-1, 2, -1, 4, -1, -1)
    assert FORK.path(5) == (0, 2, 5)
    assert FORK.positions(10).tolist() == [10, 11, 11, 12, 12, 12]
    assert FORK.num_draft_tokens == 5 and not FORK.is_chain
    visible = [row.nonzero().flatten().tolist() for row in FORK.ancestor_mask()]
    assert visible == [[0], [0, 1], [0, 2], [0, 1, 3], [0, 1, 4], [0, 2, 5]]


def test_chain_is_the_causal_mask():
    chain = DraftTree.chain([4, 5, 6, 7])
    assert chain.is_chain and chain.parent_ids == (-1, 0, 1, 2)
    assert torch.equal(chain.ancestor_mask(3), torch.ones(4, 7).tril(3).bool())


def test_from_draft_counts_the_guesses_from_zero():
    assert DraftTree.from_draft(9, [5, 6, 7, 8, 7], [-1, -1, 0, 0, 1]) == FORK
    assert DraftTree.from_draft(9, [], []) == DraftTree.chain([9])


@pytest.mark.parametrize("seed", range(20))
def test_random_trees_keep_the_invariants(seed):
    rng = random.Random(seed)
    tree = random_tree(rng.randint(1, 150), rng.randint(2, 9), rng)
    for context_len in (0, 3):
        check_mask(tree, tree.ancestor_mask(context_len), context_len)
    mask = tree.ancestor_mask()
    assert torch.equal(unpack(tree.packed_mask(), tree.num_nodes), mask)
    assert torch.equal(mask.sum(1) - 1, torch.tensor(tree.depths))
    for node, siblings in enumerate(tree.children):
        tokens = [tree.token_ids[child] for child in siblings]
        assert len(set(tokens)) == len(tokens)
        assert all(tree.parent_ids[child] == node for child in siblings)
        outside = set(range(tree.num_nodes)) - set(tree.path(node))
        assert not mask[node, sorted(outside)].any()


def test_every_single_wrong_bit_is_found():
    mask = FORK.ancestor_mask(2)
    for row in range(mask.shape[0]):
        for column in range(mask.shape[1]):
            wrong = mask.clone()
            wrong[row, column] = ~wrong[row, column]
            with pytest.raises(TreeError, match=f"node {row} "):
                check_mask(FORK, wrong, 2)


@pytest.mark.parametrize(
    ("tokens", "parents", "message"),
    [
        ((1, 2), (-1,), "2 token_ids but 1 parent_ids"),
        ((), (), "no nodes"),
        ((1,), (0,), "node 0 is the root"),
        ((1, 2), (-1, 1), "node 1 has parent 1"),
        ((1, 2, 3), (-1, 2, 0), "node 1 has parent 2"),
        ((1, 2), (-1, -1), "node 1 has parent -1"),
        ((1, -5), (-1, 0), "token id -5"),
        ((1, 5, 5), (-1, 0, 0), r"nodes \(1, 2\) are siblings"),
    ],
)
def test_bad_trees_are_named(tokens, parents, message):
    with pytest.raises(TreeError, match=message):
        DraftTree(tokens, parents)


def test_bad_masks_and_batches_are_named():
    with pytest.raises(TreeError, match=r"shape \(6, 6\), expected \(6, 8\)"):
        check_mask(FORK, FORK.ancestor_mask(), 2)
    with pytest.raises(TreeError, match="65 nodes need 2 words, not 1"):
        DraftTree.chain([1] * 65).packed_mask(1)
    with pytest.raises(TreeError, match="1 trees and 2 context_lens"):
        batch_trees([FORK], [1, 2])


def test_batch_is_ragged_and_links_stay_local():
    batch = batch_trees([FORK, DraftTree.chain([3]), DraftTree.chain([1] * 70)], [4, 0, 2])
    assert batch.qo_indptr.tolist() == [0, 6, 7, 77]
    assert (batch.max_query_len, batch.max_path_len) == (70, 70)
    assert batch.mask_bits.shape == (77, 2)
    assert batch.positions[:8].tolist() == [4, 5, 5, 6, 6, 6, 0, 2]
    assert batch.first_child[:8].tolist() == [1, 3, 5, -1, -1, -1, -1, 1]
    assert batch.token_ids[6].item() == 3
    last = unpack(batch.mask_bits[7:], 70)
    assert torch.equal(last, torch.ones(70, 70).tril().bool())
