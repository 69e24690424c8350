"""Who computes what in the next step: admission, token budget, pages, preemption.

A step is one forward. Each request in it either prefills a chunk or verifies one round. Drafts are
never cut to fit: a round waits until its whole tree fits, so that what a request computes does not
depend on its neighbours.
"""

from __future__ import annotations

from collections import deque

from kernels.kv_pool import KVPool
from lessons.lib.sequence import Request


class Scheduler:
    """Owns the two queues. It takes pages from the pool by `match_prefix` and gives them back."""

    def __init__(
        self, pool: KVPool, max_running: int, token_budget: int, shares_prefixes: bool
    ) -> None:
        """max_running requests hold pages at a time; a forward has at most token_budget rows."""
        self.waiting: deque[Request] = deque()  # first come, first served
        self.running: list[Request] = []  # in the order of admission, the youngest last
        self.preempted: list[str] = []  # by the last `schedule`
        self._pool = pool
        self._max_running = max_running
        self._token_budget = token_budget
        self._shares_prefixes = shares_prefixes
        self._num_steps = 0

    def schedule(self) -> list[tuple[Request, int]]:
        """(request, most rows) of the next step; the pool has pages for all of it.

        Who was left out last time comes first, so nobody starves; then rounds before chunks, which
        take what is left of the budget; then the order of admission. Not empty while there is a
        request: the oldest can have every page the younger ones hold.
        """
        self.preempted = []
        self._admit()
        self._num_steps += 1
        work: dict[Request, int] = {}
        turns = sorted(self.running, key=lambda r: (r.last_step, r.num_prefill > 0))
        for request in turns:
            if request not in self.running:
                continue  # preempted for an older one a moment ago
            budget = self._token_budget - sum(work.values())
            rows = self._next_rows(request)
            if request.num_prefill:
                rows = min(rows, budget)
            if 0 < rows <= budget and self._make_room(request, rows, work):
                work[request] = rows
                request.last_step = self._num_steps
        return list(work.items())

    def remove(self, request: Request) -> None:
        """A request is over, for whatever reason: its pages go back."""
        if request in self.running:
            self.running.remove(request)
        else:
            self.waiting.remove(request)
        self._pool.release(request.kv)

    def _admit(self) -> None:
        """Let the first in the queue in while its tokens find room beside what the running ones
        need next; with less, it would be preempted at once."""
        while self.waiting and len(self.running) < self._max_running:
            request = self.waiting[0]
            wanted = sum(self._pages(other, self._next_rows(other)) for other in self.running)
            wanted += self._pages(request, len(request.token_ids) + request.num_draft_tokens)
            if self.running and wanted > self._pool.allocator.num_available:
                return
            self.running.append(self.waiting.popleft())
            request.last_step = self._num_steps  # no claim to a turn before the others
            # A page holds KV but no features: who reads these computes its whole prompt.
            if self._shares_prefixes and request.feature_proposer is None:
                self._pool.match_prefix(request.kv, request.token_ids)

    def _make_room(self, request: Request, rows: int, work: dict[Request, int]) -> bool:
        """Preempt the youngest until this one fits beside those that have a turn; False where it
        is the youngest itself, which then waits and keeps its pages until somebody needs them."""
        while self._num_missing({**work, request: rows}) > 0:
            youngest = self.running[-1]
            if youngest is request:
                return False
            work.pop(youngest, None)
            self._preempt(youngest)
        return True

    def _preempt(self, request: Request) -> None:
        """Its tokens stay, its KV is computed again; it was admitted before all that wait."""
        self.running.remove(request)
        self._pool.release(request.kv)
        self.waiting.appendleft(request)
        self.preempted.append(request.request_id)

    def _num_missing(self, work: dict[Request, int]) -> int:
        needed = sum(self._pages(request, rows) for request, rows in work.items())
        return needed - self._pool.allocator.num_available

    def _pages(self, request: Request, rows: int) -> int:
        return self._pool.pages_needed(request.kv, rows)

    def _next_rows(self, request: Request) -> int:
        return request.num_prefill or 1 + request.num_draft_tokens
