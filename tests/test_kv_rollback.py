"""The three policies side by side on the same trees: what is kept, what it costs, what fails."""

import copy

import pytest
import torch

from kernels.kv_integrity import check_integrity
from kernels.kv_pool import KVPool, RollbackPolicy, SequenceKV
from kernels.kv_rollback import rollback_tree_kv, rollback_trees_kv
from kernels.kv_soak import RandomTree

RETURN, COMPACT, COUNTER = RollbackPolicy
#       0
#      / \
#     1   2
#    /   / \
#   3   4   5
#           |
#           6
TREE = RandomTree([-1, 0, 0, 1, 2, 2, 5], [0] * 7)
ROW_BYTES = 2 * 2 * 2 * 4  # K and V, two layers, two numbers, float32


def verified(policy, page_size=2, length=3):
    """A sequence of `length` tokens with TREE behind: token i holds i, node n holds 100 + n."""
    pool = KVPool(2, 16, 1, 2, page_size=page_size, policy=policy)
    sequence = SequenceKV()
    for count, first in ((length, 0), (TREE.num_nodes, 100)):
        slots = pool.reserve_tree(sequence, count)
        k = torch.arange(first, first + count, dtype=torch.float32).view(-1, 1, 1).expand(-1, 1, 2)
        for layer in range(2):
            pool.write_kv(layer, slots, k + layer / 2, -k)
        if first == 0:
            pool.commit(sequence, count)
    return pool, sequence


def values(pool, sequence):
    """K of layer 0; layer 1 and V must agree with it."""
    tables, _ = pool.prepare_block_tables([sequence])
    k, v = pool.gather_kv(0, tables, sequence.length)
    k1, v1 = pool.gather_kv(1, tables, sequence.length)
    assert torch.equal(k1, k + 0.5) and torch.equal(v, -k) and torch.equal(v1, -k)
    return k[0, :, 0, 0].tolist()


@pytest.mark.parametrize("page_size", [1, 2, 3, 16, 64])
@pytest.mark.parametrize("policy", [RETURN, COMPACT])
@pytest.mark.parametrize("path", [[], [0], [0, 1, 3], [0, 2, 5, 6], [0, 2], [5, 6]])
def test_the_accepted_path_follows_the_tokens_and_nothing_else_does(policy, path, page_size):
    pool, sequence = verified(policy, page_size)
    rollback_tree_kv(pool, sequence, TREE, path)
    assert (sequence.length, sequence.num_reserved) == (3 + len(path), 0)
    assert values(pool, sequence) == [0, 1, 2] + [100 + node for node in path]
    moved = sum(node != place for place, node in enumerate(path))
    assert pool.counters.moved_bytes == moved * ROW_BYTES
    check_integrity(pool, [sequence])


@pytest.mark.parametrize("policy", RollbackPolicy)
def test_a_chain_moves_nothing_under_any_policy(policy):
    pool, sequence = verified(policy)
    rollback_tree_kv(pool, sequence, TREE, [0, 1, 2])
    assert values(pool, sequence) == [0, 1, 2, 100, 101, 102]
    assert pool.counters.moved_bytes == 0
    check_integrity(pool, [sequence])


def test_policies_differ_in_the_pages_they_keep():
    """3 tokens and 7 nodes are 5 pages of 2; with 2 nodes accepted 3 pages are in use."""
    held, returned, fresh = {}, {}, {}
    for policy in RollbackPolicy:
        pool, sequence = verified(policy)
        rollback_tree_kv(pool, sequence, TREE, [0, 1])
        held[policy] = len(sequence.block_table)
        returned[policy] = pool.counters.pages_returned
        fresh[policy] = pool.pages_needed(sequence, TREE.num_nodes)
    assert held == {RETURN: 3, COMPACT: 5, COUNTER: 5}
    assert returned == {RETURN: 2, COMPACT: 0, COUNTER: 0}
    assert fresh == {RETURN: 3, COMPACT: 1, COUNTER: 1}


@pytest.mark.parametrize("policy", RollbackPolicy)
def test_all_policies_give_everything_back_at_the_end(policy):
    pool, sequence = verified(policy)
    rollback_tree_kv(pool, sequence, TREE, [0])
    pool.release(sequence)
    check_integrity(pool, [])
    assert pool.allocator.num_available == 16 and pool.allocator.peak_owned == 5


def test_rejecting_all_leaves_what_was_there_before():
    pool, sequence = verified(RETURN)
    rollback_tree_kv(pool, sequence, TREE, [])
    assert values(pool, sequence) == [0, 1, 2]
    assert pool.allocator.num_owned == 2


def test_a_counter_cannot_keep_a_path_that_skips_a_node():
    pool, sequence = verified(COUNTER)
    with pytest.raises(ValueError, match=r"accepted_path \[0, 2\]: COUNTER keeps only a prefix"):
        rollback_tree_kv(pool, sequence, TREE, [0, 2])


@pytest.mark.parametrize("path", [[1, 0], [0, 0], [-1, 0], [0, 7]])
def test_a_path_outside_the_tree_or_out_of_order_changes_nothing(path):
    pool, sequence = verified(RETURN)
    books = copy.deepcopy((vars(pool.allocator), vars(sequence)))
    tensors = [cache.clone() for cache in pool.k + pool.v]
    with pytest.raises(ValueError, match="must increase within 0..6"):
        rollback_tree_kv(pool, sequence, TREE, path)
    assert (vars(pool.allocator), vars(sequence)) == books
    assert all(torch.equal(a, b) for a, b in zip(tensors, pool.k + pool.v, strict=True))


def test_a_tree_of_another_size_than_was_reserved_is_refused():
    pool, sequence = verified(RETURN)
    with pytest.raises(ValueError, match="tree has 2 nodes, 7 slots are reserved"):
        rollback_tree_kv(pool, sequence, RandomTree([-1, 0], [0, 0]), [0])


def test_one_bad_path_in_a_batch_leaves_the_others_untouched():
    pool, sequence = verified(RETURN)
    other = SequenceKV()
    pool.reserve_tree(other, TREE.num_nodes)
    with pytest.raises(ValueError, match="must increase"):
        rollback_trees_kv(pool, [(sequence, TREE, [0]), (other, TREE, [3, 2])])
    assert (sequence.num_reserved, other.num_reserved) == (7, 7)


def test_a_batch_ends_as_its_members_one_by_one():
    results = []
    for as_batch in (True, False):
        pool, first = verified(RETURN)
        second = pool_sequence = SequenceKV()
        slots = pool.reserve_tree(pool_sequence, TREE.num_nodes)
        k = torch.arange(200.0, 207.0).view(-1, 1, 1).expand(-1, 1, 2)
        for layer in range(2):
            pool.write_kv(layer, slots, k + layer / 2, -k)
        batch = [(first, TREE, [0, 2, 5, 6]), (second, TREE, [0, 1, 3])]
        if as_batch:
            rollback_trees_kv(pool, batch)
        else:
            for entry in batch:
                rollback_tree_kv(pool, *entry)
        results.append((values(pool, first), values(pool, second), pool.counters))
    assert results[0] == results[1]
    assert results[0][:2] == ([0, 1, 2, 100, 102, 105, 106], [200, 201, 203])
