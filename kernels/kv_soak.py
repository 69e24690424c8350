"""A random life of requests on a tiny pool, with a shadow that knows what must be stored.

Each round does one thing to some request (admit, share a prefix, verify, fork, preempt, finish,
abort), then checks the books and the content. The shadow keeps token ids only and recomputes what
a fresh prefill would store; nothing of it comes from the pool.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch

from kernels.block_allocator import OutOfPages
from kernels.kv_integrity import check_integrity
from kernels.kv_pool import KVPool, RollbackPolicy, SequenceKV
from kernels.kv_rollback import HasNodes, rollback_trees_kv

# page_size -> (pages, longest request): small enough that pages run out again and again.
POOL_SIZES = {1: (96, 40), 3: (32, 40), 16: (14, 90), 64: (9, 230)}
VOCABULARY = 3  # few tokens: prefixes meet often
MAX_LIVE = 6
MAX_NODES = 12

RollbackBatch = Callable[[KVPool, Sequence[tuple[SequenceKV, HasNodes, Sequence[int]]]], None]


class WrongKV(RuntimeError):
    """A live token's KV is not what a fresh prefill stores; the message names the position."""


@dataclass(eq=False)
class Request:
    """token_ids are the shadow: all of them are live in the pool between two rounds."""

    token_ids: list[int]
    kv: SequenceKV = field(default_factory=SequenceKV)


@dataclass(frozen=True)
class RandomTree:
    """parent_ids[0] is -1, others are smaller than the child's own index."""

    parent_ids: list[int]
    token_ids: list[int]

    @property
    def num_nodes(self) -> int:
        return len(self.parent_ids)

    def path_to(self, node: int) -> list[int]:
        path = []
        while node >= 0:
            path.append(node)
            node = self.parent_ids[node]
        return path[::-1]


@dataclass
class SoakReport:
    """What one soak did, by action and by event: a test can see that it was no idle run."""

    seed: int
    page_size: int
    policy: str
    rounds: int = 0
    counts: Counter[str] = field(default_factory=Counter)


def next_state(state: int, token_id: int) -> int:
    """Stands for the model: KV depends on the token and on all before it. Exact in float32."""
    return (state * 31 + token_id + 1) % 16_777_213


def kv_rows(states: Sequence[int], positions: Sequence[int]) -> torch.Tensor:
    """What the stand-in model stores, [num_tokens, 4]: two numbers of K, two of V. Never 0 or 1."""
    rows = [(s + 2, -p - 1, p + 2, -s - 1) for s, p in zip(states, positions, strict=True)]
    return torch.tensor(rows, dtype=torch.float32)


def fresh_prefill(token_ids: Sequence[int]) -> torch.Tensor:
    """KV rows [num_tokens, 4] of these tokens computed from nothing."""
    states = list(accumulate(token_ids, next_state, initial=0))[1:]
    return kv_rows(states, range(len(token_ids)))


class KVSoak:
    """Drives one pool. `rollback` can be replaced by a broken one to see that the checks bite."""

    def __init__(self, pool: KVPool, seed: int, rollback: RollbackBatch = rollback_trees_kv):
        self.pool = pool
        self.rollback = rollback
        self.random = random.Random(seed)
        self.max_length = POOL_SIZES[pool.page_size][1]
        self.live: list[Request] = []  # oldest first
        self.waiting: list[list[int]] = []  # token ids of preempted requests
        self.report = SoakReport(seed, pool.page_size, pool.policy.value)

    def run(self, rounds: int, content_every: int = 8) -> SoakReport:
        """Books are checked every round, the content of all live tokens every `content_every`.

        Ends by releasing everything, so that a leak shows. Raises IntegrityError or WrongKV.
        """
        for number in range(rounds):
            self.step()
            check_integrity(self.pool, [r.kv for r in self.live])
            if number % content_every == 0:
                self.check_content(self.live)
        self.check_content(self.live)
        while self.live:
            self.drop(self.live[-1])
        check_integrity(self.pool, [])
        self._fill_report(rounds)
        return self.report

    def step(self) -> None:
        """One random action."""
        if not self.live:
            action = self.admit
        elif len(self.live) > MAX_LIVE:
            action = self.finish
        else:
            actions = (self.verify, self.admit, self.fork, self.preempt, self.abort, self.finish)
            action = self.random.choices(actions, (10, 3, 1, 1, 1, 1))[0]
        self.report.counts[action.__name__] += 1
        action()

    def check_content(self, requests: Sequence[Request]) -> None:
        """Compare all live tokens of these requests with a fresh prefill."""
        if not requests:
            return
        tables, lens = self.pool.prepare_block_tables([r.kv for r in requests])
        k, v = self.pool.gather_kv(0, tables, int(lens.max()))
        stored = torch.cat((k, v), dim=-1)[:, :, 0]
        for row, request in zip(stored, requests, strict=True):
            expected = fresh_prefill(request.token_ids)
            if request.kv.length != len(expected):
                raise WrongKV(f"length {request.kv.length}, {len(expected)} tokens accepted")
            row = row[: len(expected)]
            if not torch.equal(row, expected):
                position = int((row != expected).any(dim=1).nonzero()[0])
                page = request.kv.block_table[position // self.pool.page_size]
                raise WrongKV(f"page {page}: position {position} holds another token's KV")

    # Actions, one a round

    def admit(self) -> None:
        """A new request, or one that was preempted: match a prefix, prefill the rest in chunks."""
        if self.waiting and (len(self.waiting) > 3 or self.random.random() < 0.5):
            token_ids = self.waiting.pop(0)
        else:
            token_ids = self._random_prompt()
        request = Request(token_ids)
        self.live.append(request)
        num_done = self.pool.match_prefix(request.kv, token_ids)
        self.report.counts["tokens_from_cache"] += num_done
        states = list(accumulate(token_ids, next_state, initial=0))[1:]
        while num_done < len(token_ids):
            end = self.random.randint(num_done + 1, len(token_ids))
            slots = self._reserve(request, end - num_done)
            if slots is None:
                return
            self._write(slots, states[num_done:end], range(num_done, end))
            self.pool.commit(request.kv, end - num_done)
            self.pool.publish(request.kv, token_ids)
            num_done = end

    def verify(self) -> None:
        """Trees of one to three requests in one batch; each accepts some path or nothing."""
        batch = []
        for request in self.random.sample(self.live, min(len(self.live), 3)):
            if request in self.live:  # not preempted by one of its companions
                tree = self._draft(request)
                if tree is not None:
                    batch.append((request, tree, self._accept(tree)))
        batch = [entry for entry in batch if entry[0] in self.live]
        self.rollback(self.pool, [(r.kv, tree, path) for r, tree, path in batch])
        for request, tree, path in batch:
            request.token_ids += [tree.token_ids[node] for node in path]
            self.report.counts["accepted" if path else "rejected"] += 1
            if self.random.random() < 0.7:
                self.pool.publish(request.kv, request.token_ids)
            if len(request.token_ids) > self.max_length - MAX_NODES:
                self.drop(request)

    def fork(self) -> None:
        """A second continuation of the same tokens."""
        request = self.random.choice(self.live)
        self.live.append(Request(list(request.token_ids), self.pool.fork(request.kv)))

    def preempt(self, request: Request | None = None) -> None:
        """Take all pages; the tokens wait for a later prefill. Youngest first, as a scheduler."""
        request = request or self.live[-1]
        self.waiting.append(request.token_ids)
        self.drop(request)

    def abort(self) -> None:
        """The client leaves while its tree is being verified."""
        request = self.random.choice(self.live)
        self._draft(request)
        if request in self.live:
            self.drop(request)

    def finish(self) -> None:
        """A request ends between two rounds."""
        self.drop(self.random.choice(self.live))

    def drop(self, request: Request) -> None:
        """The request is no more; its pages go back."""
        self.live.remove(request)
        self.pool.release(request.kv)

    # Parts of actions

    def _draft(self, request: Request) -> RandomTree | None:
        """Write a random tree behind the request's tokens; None: preempted for want of pages."""
        count = self.random.randint(1, MAX_NODES)
        is_chain = self.pool.policy is RollbackPolicy.COUNTER or self.random.random() < 0.2
        first_parent = (lambda i: i - 1) if is_chain else (lambda i: 0)
        parents = [-1] + [self.random.randint(first_parent(i), i - 1) for i in range(1, count)]
        tree = RandomTree(parents, self.random.choices(range(VOCABULARY), k=count))
        slots = self._reserve(request, count)
        if slots is None:
            return None
        *_, root_state = accumulate(request.token_ids, next_state, initial=0)
        states: list[int] = []
        depths: list[int] = []
        for parent, token_id in zip(tree.parent_ids, tree.token_ids, strict=True):
            states.append(next_state(root_state if parent < 0 else states[parent], token_id))
            depths.append(0 if parent < 0 else depths[parent] + 1)
        self._write(slots, states, [len(request.token_ids) + depth for depth in depths])
        return tree

    def _accept(self, tree: RandomTree) -> list[int]:
        path = tree.path_to(self.random.randrange(tree.num_nodes))
        return path[: self.random.randint(0, len(path))]

    def _reserve(self, request: Request, num_nodes: int) -> torch.Tensor | None:
        """Slots, preempting the youngest until there are enough; None: that was itself."""
        while request in self.live:
            try:
                return self.pool.reserve_tree(request.kv, num_nodes)
            except OutOfPages:
                self.report.counts["out_of_pages"] += 1
                check_integrity(self.pool, [r.kv for r in self.live])
                self.preempt(self.live[-1])
        return None

    def _write(self, slots: torch.Tensor, states: Sequence[int], positions: Sequence[int]) -> None:
        rows = kv_rows(states, positions)[:, None]
        self.pool.write_kv(0, slots, rows[..., :2], rows[..., 2:])

    def _random_prompt(self) -> list[int]:
        """Often an old prompt's beginning, so that prefixes are shared, with a tail of its own."""
        longest = self.max_length // 2
        old = self.random.choice(self.live).token_ids if self.live else []
        prefix = old[: self.random.randint(0, longest - 1)]
        tail = self.random.randint(1, longest - len(prefix))
        return prefix + self.random.choices(range(VOCABULARY), k=tail)

    def _fill_report(self, rounds: int) -> None:
        self.report.rounds = rounds
        self.report.counts["evicted"] = self.pool.allocator.num_evicted
        self.report.counts["peak_pages"] = self.pool.allocator.peak_owned
        for name, value in vars(self.pool.counters).items():
            self.report.counts[name] = value


def make_pool(page_size: int, policy: RollbackPolicy) -> KVPool:
    """One layer, one head, two numbers a row: as fast as a pool can be."""
    return KVPool(1, POOL_SIZES[page_size][0], 1, 2, page_size=page_size, policy=policy)


def soak(rounds: int, seed: int) -> list[SoakReport]:
    """Share `rounds` among all page sizes and policies, each with its own seed.

    Raises IntegrityError or WrongKV at the first thing that is wrong.
    """
    pools = [(size, policy) for size in POOL_SIZES for policy in RollbackPolicy]
    share = -(-rounds // len(pools))
    return [
        KVSoak(make_pool(size, policy), seed + number).run(share)
        for number, (size, policy) in enumerate(pools)
    ]
