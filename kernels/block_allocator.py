"""Pages and who holds them: free list, reference counts, and a cache of pages by content.

A page is always in exactly one of three states:

    free    reference count 0, no key; its content is worthless
    owned   reference count = number of block tables it stands in; it may also have a key
    cached  reference count 0, has a key; kept for a later request until its room is needed

The allocator knows page numbers and keys only. Tensors belong to `KVPool`, block tables to the
sequences. Nobody else changes a reference count.
"""

from collections import OrderedDict
from collections.abc import Iterable


class OutOfPages(RuntimeError):
    """Not enough free and cached pages; raised before anything has changed.

    A scheduler answers by preempting a request, not by failing.
    """

    def __init__(self, needed: int, available: int):
        super().__init__(f"{needed} pages needed, {available} available: preempt a request")
        self.needed = needed
        self.available = available


class IntegrityError(RuntimeError):
    """The books do not agree; the message names the page (or sequence) and what is off."""


class BlockAllocator:
    """Hands out page numbers 0..num_pages-1 and takes them back.

    Keys are opaque content names (chained block hashes). A page gets its key by `publish`, loses
    it when it is evicted, and keeps it while it moves between owned and cached.
    """

    def __init__(self, num_pages: int):
        if num_pages < 1:
            raise ValueError(f"num_pages is {num_pages}: give at least 1")
        self.num_pages = num_pages
        self.ref_counts = [0] * num_pages
        # Popped from the end, so page 0 is handed out first and just-freed pages are reused first.
        self.free_pages = list(range(num_pages - 1, -1, -1))
        self.cached_pages: OrderedDict[int, None] = OrderedDict()  # least recently used first
        self.page_by_key: dict[bytes, int] = {}
        self.key_by_page: dict[int, bytes] = {}
        self.num_evicted = 0
        self.peak_owned = 0

    @property
    def num_available(self) -> int:
        """Pages that `allocate` could hand out now: free ones and evictable ones."""
        return len(self.free_pages) + len(self.cached_pages)

    @property
    def num_owned(self) -> int:
        """Pages in at least one block table."""
        return self.num_pages - self.num_available

    def allocate(self, num_pages: int) -> list[int]:
        """Return `num_pages` pages with reference count 1 each, or raise OutOfPages unchanged."""
        if num_pages > self.num_available:
            raise OutOfPages(num_pages, self.num_available)
        while len(self.free_pages) < num_pages:
            self._evict()
        pages = [self.free_pages.pop() for _ in range(num_pages)]
        for page in pages:
            self.ref_counts[page] = 1
        self.peak_owned = max(self.peak_owned, self.num_owned)
        return pages

    def share(self, page: int) -> None:
        """Add one owner to an owned or cached page."""
        if self.ref_counts[page] == 0:
            if page not in self.cached_pages:
                raise IntegrityError(f"page {page}: shared although it is free")
            del self.cached_pages[page]
        self.ref_counts[page] += 1
        self.peak_owned = max(self.peak_owned, self.num_owned)

    def release(self, pages: Iterable[int]) -> None:
        """Take one owner from each page; a page without owners becomes cached or free."""
        for page in pages:
            if self.ref_counts[page] == 0:
                raise IntegrityError(f"page {page}: released although it has no owner")
            self.ref_counts[page] -= 1
            if self.ref_counts[page] > 0:
                continue
            if page in self.key_by_page:
                self.cached_pages[page] = None
            else:
                self.free_pages.append(page)

    def publish(self, page: int, key: bytes) -> None:
        """Let later requests find an owned page by its content.

        Must hold: every slot of the page is written. When the key is taken (two requests computed
        the same block at the same time) the first page keeps it and this one stays private.
        """
        if self.ref_counts[page] == 0:
            raise IntegrityError(f"page {page}: published although it has no owner")
        if key not in self.page_by_key and page not in self.key_by_page:
            self.page_by_key[key] = page
            self.key_by_page[page] = key

    def lookup(self, key: bytes) -> int | None:
        """The page with this content, owned or cached, or None."""
        return self.page_by_key.get(key)

    def check_integrity(self) -> None:
        """Raise IntegrityError unless every page is in exactly one state and keys are one to one.

        Agreement with the block tables is checked by `kv_integrity.check_integrity`.
        """
        owned = [page for page, count in enumerate(self.ref_counts) if count]
        if sorted((*self.free_pages, *self.cached_pages, *owned)) != list(range(self.num_pages)):
            self._report_state()
        stale = self.key_by_page.keys() & set(self.free_pages)
        if stale:
            raise IntegrityError(f"page {min(stale)}: free, but its old content can still be found")
        lost = self.cached_pages.keys() - self.key_by_page.keys()
        if lost:
            raise IntegrityError(f"page {min(lost)}: cached, but it has no key to find it by")
        found = zip(self.page_by_key.values(), self.page_by_key, strict=True)
        if dict(found) != self.key_by_page:
            pairs = {(page, key) for key, page in self.page_by_key.items()}
            page, _ = min(pairs ^ set(self.key_by_page.items()))
            raise IntegrityError(f"page {page}: its key and the page found by it disagree")

    def _report_state(self) -> None:
        idle = [*self.free_pages, *self.cached_pages]
        for page, count in enumerate(self.ref_counts):
            times = idle.count(page)
            if count and times:
                raise IntegrityError(f"page {page}: reference count {count} and yet free or cached")
            if not count and times != 1:
                what = f"free {times} times" if times else "leaked: no owner, not free"
                raise IntegrityError(f"page {page}: {what}")

    def _evict(self) -> None:
        page, _ = self.cached_pages.popitem(last=False)
        del self.page_by_key[self.key_by_page.pop(page)]
        self.free_pages.append(page)
        self.num_evicted += 1
