"""Page numbers alone: three states, keys, and what the allocator refuses."""

import pytest

from kernels.block_allocator import BlockAllocator, IntegrityError, OutOfPages


def test_allocator_counts_and_states():
    allocator = BlockAllocator(4)
    pages = allocator.allocate(3)
    assert (allocator.num_available, allocator.num_owned, allocator.peak_owned) == (1, 3, 3)
    allocator.publish(pages[0], b"a")
    allocator.share(pages[1])
    allocator.release(pages)
    assert list(allocator.cached_pages) == [pages[0]] and allocator.ref_counts[pages[1]] == 1
    allocator.share(allocator.lookup(b"a"))
    assert allocator.num_owned == 2 and not allocator.cached_pages
    allocator.release([pages[0], pages[1]])
    assert (allocator.num_available, allocator.peak_owned) == (4, 3)
    allocator.check_integrity()


@pytest.mark.parametrize(
    "misuse, message",
    [
        (lambda a: a.release([2]), "page 2: released although it has no owner"),
        (lambda a: a.share(2), "page 2: shared although it is free"),
        (lambda a: a.publish(2, b"k"), "page 2: published although it has no owner"),
    ],
)
def test_allocator_refuses_what_would_corrupt_it(misuse, message):
    allocator = BlockAllocator(3)
    allocator.allocate(2)
    with pytest.raises(IntegrityError, match=message):
        misuse(allocator)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda a: a.free_pages.append(3), "page 3: free 2 times"),
        (lambda a: a.free_pages.remove(3), "page 3: leaked: no owner, not free"),
        (lambda a: a.free_pages.append(0), "page 0: reference count 1 and yet free or cached"),
        (lambda a: a.key_by_page.update({3: b"x"}), "page 3: free, but its old content"),
        (lambda a: a.key_by_page.pop(1), "page 1: cached, but it has no key"),
        (lambda a: a.page_by_key.update({b"x": 0}), "page 0: its key and the page found"),
        (lambda a: a.page_by_key.pop(b"one"), "page 1: its key and the page found"),
    ],
)
def test_allocator_check_names_the_page_and_what_is_off(damage, message):
    allocator = BlockAllocator(4)
    allocator.allocate(2)
    allocator.publish(1, b"one")
    allocator.release([1])
    allocator.check_integrity()
    damage(allocator)
    with pytest.raises(IntegrityError, match=message):
        allocator.check_integrity()


def test_an_empty_pool_is_refused():
    with pytest.raises(ValueError, match="num_pages is 0: give at least 1"):
        BlockAllocator(0)


def test_allocation_is_all_or_nothing_and_evicts_only_when_it_must():
    allocator = BlockAllocator(3)
    (page,) = allocator.allocate(1)
    allocator.publish(page, b"a")
    allocator.release([page])
    allocator.release(allocator.allocate(2))
    assert allocator.lookup(b"a") == page and allocator.num_evicted == 0
    with pytest.raises(OutOfPages):
        allocator.allocate(4)
    assert allocator.lookup(b"a") == page and allocator.num_available == 3
    allocator.allocate(3)
    assert allocator.lookup(b"a") is None and allocator.num_evicted == 1
