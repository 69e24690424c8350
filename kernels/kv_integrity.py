"""Double entry: the allocator's reference counts against the block tables of the sequences."""

from collections.abc import Sequence
from itertools import chain

from kernels.block_allocator import IntegrityError
from kernels.kv_pool import KVPool, RollbackPolicy, SequenceKV


def check_integrity(pool: KVPool, sequences: Sequence[SequenceKV]) -> None:
    """Raise IntegrityError, naming the page or sequence, unless all of this holds.

    - free + owned + cached = all pages, each in one state, keys one to one with their pages
    - every page's reference count = number of block tables it stands in
    - every live token and reserved slot has a page; RETURN_PAGES: and no page is idle
    - no two live tokens share a slot, except in a page that stands at the same place in several
      tables with the same tokens and that nobody is writing to
    - a published block is full of live tokens and stands under its owner's hash

    sequences: all live ones. One that was dropped without `release` shows as a leaked page.
    """
    pool.allocator.check_integrity()
    counts = [0] * pool.allocator.num_pages
    for page in chain.from_iterable(s.block_table for s in sequences):
        counts[page] += 1
    for page, (owned, counted) in enumerate(zip(counts, pool.allocator.ref_counts, strict=True)):
        if owned != counted:
            raise IntegrityError(f"page {page}: reference count {counted}, owners {owned}")
    for number, sequence in enumerate(sequences):
        _check_extent(pool, number, sequence)
        _check_published(pool, sequence)
    if any(count > 1 for count in counts):
        _check_sharing(pool, sequences)


def _check_extent(pool: KVPool, number: int, sequence: SequenceKV) -> None:
    num_slots = sequence.length + sequence.num_reserved
    needed = -(-num_slots // pool.page_size)
    held = len(sequence.block_table)
    if held < needed:
        raise IntegrityError(
            f"sequence {number}: {num_slots} slots in use need {needed} pages, it holds {held}"
        )
    if held > needed and pool.policy is RollbackPolicy.RETURN_PAGES:
        page = sequence.block_table[needed]
        raise IntegrityError(f"page {page}: held by sequence {number}, which has no use for it")


def _check_published(pool: KVPool, sequence: SequenceKV) -> None:
    num_full = sequence.length // pool.page_size
    keys = pool.allocator.key_by_page
    for block, page in enumerate(sequence.block_table):
        key = keys.get(page)
        if key is None:
            continue
        if block >= num_full:
            raise IntegrityError(f"page {page}: published before it was full of live tokens")
        # A fork may not have hashed a block yet that its twin has published.
        if block < len(sequence.block_hashes) and sequence.block_hashes[block] != key:
            raise IntegrityError(f"page {page}: published under a hash that is not its owner's")


def _check_sharing(pool: KVPool, sequences: Sequence[SequenceKV]) -> None:
    """Of one page, every owner must see the same: (block, live tokens, nothing reserved)."""
    seen: dict[int, tuple[int, int]] = {}
    for number, sequence in enumerate(sequences):
        for block, page in enumerate(sequence.block_table):
            if pool.allocator.ref_counts[page] == 1:
                continue
            start = block * pool.page_size
            live = max(0, min(pool.page_size, sequence.length - start))
            reserved_here = sequence.num_reserved and live < pool.page_size
            if reserved_here or not live:
                raise IntegrityError(f"page {page}: shared, but sequence {number} may write to it")
            if seen.setdefault(page, (block, live)) != (block, live):
                raise IntegrityError(f"page {page}: owners disagree on what it holds")
