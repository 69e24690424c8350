"""The pool by itself: pages, prefixes, forks, running out. No randomness, one thing a test."""

import copy

import pytest
import torch

from kernels.block_allocator import OutOfPages
from kernels.kv_integrity import check_integrity
from kernels.kv_pool import KVPool, RollbackPolicy, SequenceKV

TOKENS = [5, 6, 7, 8, 9, 10, 11, 12, 13]


def make_pool(num_pages=8, page_size=4, policy=RollbackPolicy.RETURN_PAGES, **kwargs):
    shape = {"num_layers": 2, "num_kv_heads": 3, "head_dim": 5} | kwargs
    return KVPool(num_pages=num_pages, page_size=page_size, policy=policy, **shape)


def rows_of(token_ids, layer):
    """A different row for every (token, layer, head, dim); V is K plus a half."""
    grid = torch.arange(15.0).view(1, 3, 5) / 100
    k = torch.tensor(token_ids, dtype=torch.float32)[:, None, None] + 20 * layer + grid
    return k, k + 0.5


def append(pool, token_ids, sequence):
    slots = pool.reserve_tree(sequence, len(token_ids))
    for layer in range(len(pool.k)):
        pool.write_kv(layer, slots, *rows_of(token_ids, layer))
    pool.commit(sequence, len(token_ids))


def prefill(pool, token_ids, sequence=None):
    sequence = sequence or SequenceKV()
    append(pool, token_ids[sequence.length :], sequence)
    pool.publish(sequence, token_ids)
    return sequence


def assert_holds(pool, sequence, token_ids):
    tables, lens = pool.prepare_block_tables([sequence])
    assert lens.tolist() == [len(token_ids)]
    for layer in range(len(pool.k)):
        k, v = pool.gather_kv(layer, tables, len(token_ids))
        expected_k, expected_v = rows_of(token_ids, layer)
        assert torch.equal(k[0], expected_k) and torch.equal(v[0], expected_v)


def state_of(pool, *sequences):
    books = (pool.allocator, pool.counters, sequences)
    return copy.deepcopy([vars(x) for x in books[:2]] + [vars(s) for s in sequences])


# Tensors


@pytest.mark.parametrize("page_size", [1, 3, 16, 64])
def test_what_is_written_is_gathered_whatever_the_pages(page_size):
    pool = make_pool(num_pages=24, page_size=page_size)
    pool.reserve_tree(SequenceKV(), 1)  # so that no table is just 0, 1, 2, ...
    sequences = [prefill(pool, TOKENS[:n]) for n in (9, 1, 5)]
    tables, lens = pool.prepare_block_tables(sequences)
    assert tables.dtype == lens.dtype == torch.int32 and lens.tolist() == [9, 1, 5]
    for layer in range(2):
        k, v = pool.gather_kv(layer, tables, 9)
        assert k.shape == v.shape == (3, 9, 3, 5)
        for row, length in enumerate((9, 1, 5)):
            expected_k, expected_v = rows_of(TOKENS[:length], layer)
            assert torch.equal(k[row, :length], expected_k)
            assert torch.equal(v[row, :length], expected_v)


def test_layers_are_tensors_of_their_own_and_start_as_zeros():
    pool = make_pool(dtype=torch.bfloat16)
    storages = {cache.untyped_storage().data_ptr() for cache in pool.k + pool.v}
    assert len(storages) == 4
    for cache in pool.k + pool.v:
        assert cache.shape == (8, 4, 3, 5) and cache.dtype == torch.bfloat16
        assert not cache.any()
    assert pool.bytes_per_token == 2 * 2 * 3 * 5 * 2


def test_a_slot_is_page_times_size_plus_offset():
    pool = make_pool()
    pool.reserve_tree(SequenceKV(), 1)
    assert pool.reserve_tree(SequenceKV(), 6).tolist() == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("page_size", [0, 65, -1])
def test_page_size_out_of_range_is_refused(page_size):
    with pytest.raises(ValueError, match=f"page_size is {page_size}: choose 1 to 64"):
        make_pool(page_size=page_size)


# Prefixes


def test_a_prefix_is_shared_by_whole_blocks_and_the_last_token_is_always_left():
    pool = make_pool()
    first = prefill(pool, TOKENS)
    for token_ids, expected in [
        (TOKENS, 8),
        (TOKENS[:8], 4),  # its last token must be computed, so its last block is
        (TOKENS[:4], 0),
        ([*TOKENS[:5], 0, 0, 0, 0], 4),
        ([0, *TOKENS[1:]], 0),
        ([], 0),
    ]:
        other = SequenceKV()
        assert pool.match_prefix(other, token_ids) == expected == other.length
        assert other.block_table == first.block_table[: expected // 4]
        check_integrity(pool, [first, other])
        pool.release(other)


def test_a_matched_prefix_holds_the_right_kv_after_its_first_owner_left():
    pool = make_pool()
    pool.release(prefill(pool, TOKENS))
    assert pool.allocator.num_owned == 0
    second = SequenceKV()
    assert pool.match_prefix(second, TOKENS) == 8
    prefill(pool, TOKENS, second)
    assert_holds(pool, second, TOKENS)


def test_an_equal_block_behind_another_prefix_is_another_block():
    pool = make_pool()
    prefill(pool, [1, 1, 1, 1, 2, 2, 2, 2])
    prefill(pool, [3, 3, 3, 3])
    assert pool.match_prefix(SequenceKV(), [3, 3, 3, 3, 2, 2, 2, 2, 0]) == 4


def test_reserved_slots_are_never_published():
    pool = make_pool()
    sequence = prefill(pool, TOKENS[:3])
    pool.reserve_tree(sequence, 6)
    pool.publish(sequence, TOKENS)
    assert not pool.allocator.page_by_key and not sequence.block_hashes
    assert pool.match_prefix(SequenceKV(), TOKENS) == 0


def test_publish_needs_a_token_id_for_every_live_token():
    pool = make_pool()
    sequence = prefill(pool, TOKENS[:5])
    with pytest.raises(ValueError, match="4 token ids for 5 live tokens"):
        pool.publish(sequence, TOKENS[:4])


def test_two_requests_that_compute_the_same_block_keep_a_page_each():
    pool = make_pool()
    sequences = [prefill(pool, TOKENS[:4]), prefill(pool, TOKENS[:4])]
    assert sequences[0].block_table != sequences[1].block_table
    check_integrity(pool, sequences)
    pool.release(sequences[0])
    pool.release(sequences[1])
    assert len(pool.allocator.cached_pages) == 1, "the second copy has nothing to offer"
    check_integrity(pool, [])


def test_cached_pages_are_evicted_least_recently_used_first_and_tails_before_prefixes():
    pool = make_pool(num_pages=4)
    old = prefill(pool, TOKENS[:8])
    new = prefill(pool, [0, 0, 0, 0, 1, 1, 1, 1])
    old_pages, new_pages = list(old.block_table), list(new.block_table)
    pool.release(old)
    pool.release(new)
    pool.match_prefix(SequenceKV(), TOKENS[:5])  # the old prefix is in use again
    assert list(pool.allocator.cached_pages) == [old_pages[1], new_pages[1], new_pages[0]]
    pool.reserve_tree(SequenceKV(), 8)
    assert pool.allocator.num_evicted == 2
    assert pool.match_prefix(SequenceKV(), [0, 0, 0, 0, 1]) == 4


# Forks


def test_a_fork_shares_all_pages_and_the_first_writer_gets_a_copy_of_the_last():
    pool = make_pool()
    first = prefill(pool, TOKENS[:6])
    twin = pool.fork(first)
    assert twin.block_table == first.block_table and pool.allocator.num_owned == 2
    check_integrity(pool, [first, twin])
    prefill(pool, [*TOKENS[:6], 1], twin)
    assert twin.block_table[0] == first.block_table[0]
    assert twin.block_table[1] != first.block_table[1]
    assert pool.counters.copied_bytes == 2 * pool.bytes_per_token
    prefill(pool, [*TOKENS[:6], 2], first)
    assert pool.counters.copied_bytes == 2 * pool.bytes_per_token, "the last owner needs no copy"
    assert_holds(pool, twin, [*TOKENS[:6], 1])
    assert_holds(pool, first, [*TOKENS[:6], 2])
    check_integrity(pool, [first, twin])


def test_a_fork_leaves_the_idle_tail_to_the_first_who_still_pays_for_its_copy():
    pool = make_pool(policy=RollbackPolicy.COUNTER)
    first = prefill(pool, TOKENS[:4])
    pool.reserve_tree(first, 6)
    pool.commit(first, 1)
    twin = pool.fork(first)
    assert (len(first.block_table), len(twin.block_table)) == (3, 2)
    assert twin.block_hashes == first.block_hashes != []
    assert (pool.pages_needed(first, 1), pool.pages_needed(twin, 4)) == (1, 2)
    tail = first.block_table[1]
    pool.reserve_tree(first, 1)
    assert first.block_table[1] != tail == twin.block_table[1]
    check_integrity(pool, [first, twin])


def test_a_fork_during_verification_is_refused():
    pool = make_pool()
    sequence = SequenceKV()
    pool.reserve_tree(sequence, 3)
    with pytest.raises(ValueError, match="fork during verification: 3 slots reserved"):
        pool.fork(sequence)


# Running out, and misuse


def test_out_of_pages_changes_nothing_and_says_how_many_are_missing():
    pool = make_pool(num_pages=5)
    first = prefill(pool, TOKENS[:6])
    twin = pool.fork(first)
    pool.release(prefill(pool, [0, 0, 0, 0]))  # one cached page that could be evicted
    before = state_of(pool, first, twin)
    tensors = [cache.clone() for cache in pool.k + pool.v]
    with pytest.raises(OutOfPages, match="4 pages needed, 3 available: preempt") as caught:
        pool.reserve_tree(twin, 11)  # three new pages and a copy of the shared last one
    assert (caught.value.needed, caught.value.available) == (4, 3)
    assert state_of(pool, first, twin) == before
    assert all(torch.equal(a, b) for a, b in zip(tensors, pool.k + pool.v, strict=True))
    assert pool.pages_needed(twin, 10) == 3
    pool.reserve_tree(twin, 10)
    assert pool.allocator.num_available == 0


def test_a_preempted_sequence_recomputes_to_the_same_kv():
    pool = make_pool(num_pages=3)
    sequence = prefill(pool, TOKENS)
    pool.release(sequence)
    pool.release(prefill(pool, [1, 2, 3, 4, 5]))  # evicts some of its blocks
    pool.match_prefix(sequence, TOKENS)
    prefill(pool, TOKENS, sequence)
    assert_holds(pool, sequence, TOKENS)


def test_release_during_verification_gives_everything_back():
    pool = make_pool()
    sequence = prefill(pool, TOKENS)
    pool.reserve_tree(sequence, 9)
    pool.release(sequence)
    assert vars(sequence) == vars(SequenceKV())
    check_integrity(pool, [])
    assert pool.allocator.num_available == 8


@pytest.mark.parametrize(
    "misuse, message",
    [
        (lambda pool, s: pool.reserve_tree(s, 1), "2 slots are still reserved: commit first"),
        (lambda pool, s: pool.reserve_tree(SequenceKV(), 0), "num_nodes is 0: reserve at least 1"),
        (lambda pool, s: pool.commit(s, 3), "3 tokens to commit, 2 reserved"),
        (lambda pool, s: pool.commit(s, -1), "-1 tokens to commit, 2 reserved"),
        (lambda pool, s: pool.match_prefix(s, TOKENS), "needs an empty sequence"),
    ],
)
def test_misuse_is_refused_and_changes_nothing(misuse, message):
    pool = make_pool()
    sequence = prefill(pool, TOKENS)
    pool.reserve_tree(sequence, 2)
    before = state_of(pool, sequence)
    with pytest.raises(ValueError, match=message):
        misuse(pool, sequence)
    assert state_of(pool, sequence) == before


# Truncation


@pytest.mark.parametrize("policy", RollbackPolicy)
@pytest.mark.parametrize("length", [4, 6, 8, 9])
def test_a_truncated_sequence_goes_on_with_other_tokens(policy, length):
    pool = make_pool(policy=policy)
    sequence = prefill(pool, TOKENS[:4])
    append(pool, TOKENS[4:], sequence)
    pages = len(sequence.block_table)
    pool.truncate(sequence, length)
    is_returned = policy is RollbackPolicy.RETURN_PAGES
    assert len(sequence.block_table) == (-(-length // 4) if is_returned else pages)
    check_integrity(pool, [sequence])
    append(pool, [31, 32, 33, 34], sequence)
    assert_holds(pool, sequence, [*TOKENS[:length], 31, 32, 33, 34])
    check_integrity(pool, [sequence])


def test_published_and_reserved_tokens_cannot_be_cut():
    pool = make_pool()
    sequence = prefill(pool, TOKENS)
    before = state_of(pool, sequence)
    for length in (7, -1, 10):
        with pytest.raises(ValueError, match="choose 8 to 9"):
            pool.truncate(sequence, length)
    assert state_of(pool, sequence) == before
    pool.reserve_tree(sequence, 1)
    with pytest.raises(ValueError, match="1 slots are still reserved"):
        pool.truncate(sequence, 8)
