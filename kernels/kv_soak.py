"""A random life of requests on a tiny pool, with a shadow that knows what must be stored.

Each round does one thing to some request (admit, share a prefix, verify, fork, preempt, finish,
abort), then checks the books and the content. The shadow keeps token ids only and recomputes what
a fresh prefill would store; nothing of it comes from the pool.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch

from kernels.block_allocator import OutOfPages
from kernels.kv_integrity import check_integrity
from kernels.kv_pool import KVPool, RollbackPolicy, SequenceKV
from kernels.kv_rollback import RollbackBatch, rollback_trees_kv

# page_size -> (pages, longest request): small enough that pages run out again and again.
POOL_SIZES = {1: (96, 40), 3: (32, 40), 16: (14, 80), 64: (8, 160)}
VOCABULARY = 3  # few tokens: prefixes meet often
MAX_LIVE = 6
MAX_NODES = 12


class WrongKV(RuntimeError):
    """A live token's KV is not what a fresh prefill stores; the message names the position."""


@dataclass(eq=False)
class Request:
    """token_ids are the shadow: all of them are live in the pool between two rounds."""

    token_ids: list[int]
    kv: SequenceKV = field(default_factory=SequenceKV)


def next_state(state: int, token_id: int) -> int:
    """Stands for the model: KV depends on the token and all before it. Exact in float32, >= 2."""
    return 2 + (state * 31 + token_id) % 16_777_213


def kv_rows(states: Sequence[int], positions: Sequence[int]) -> torch.Tensor:
    """K of the stand-in model, [num_tokens, 2] float32; V is its negative."""
    return torch.tensor([states, positions], dtype=torch.float32).T


@dataclass(frozen=True)
class RandomTree:
    """parent_ids[0] is -1, others are smaller than the child's own index."""

    parent_ids: list[int]
    token_ids: list[int]

    @property
    def num_nodes(self) -> int:
        return len(self.parent_ids)

    def path_to(self, node: int) -> list[int]:
        """Node indices from the root to this node."""
        path = []
        while node >= 0:
            path.append(node)
            node = self.parent_ids[node]
        return path[::-1]

    def kv_rows(self, prefix: Sequence[int]) -> torch.Tensor:
        """What a verification behind these token ids stores, [num_nodes, 2]."""
        *_, prefix_state = accumulate(prefix, next_state, initial=0)
        states: list[int] = []
        positions: list[int] = []
        for parent, token_id in zip(self.parent_ids, self.token_ids, strict=True):
            is_root = parent < 0
            states.append(next_state(prefix_state if is_root else states[parent], token_id))
            positions.append(len(prefix) if is_root else positions[parent] + 1)
        return kv_rows(states, positions)


@dataclass(frozen=True)
class SoakReport:
    """What one soak did, by action and by event: it shows that this was no idle run."""

    seed: int
    page_size: int
    policy: str
    rounds: int
    counts: dict[str, int]


def fresh_prefill(token_ids: Sequence[int]) -> torch.Tensor:
    """KV rows [num_tokens, 2] of these tokens computed from nothing."""
    states = list(accumulate(token_ids, next_state, initial=0))[1:]
    return kv_rows(states, range(len(token_ids)))


class KVSoak:
    """Drives one pool. `rollback` can be replaced by a broken one to see that the checks bite."""

    def __init__(self, pool: KVPool, seed: int, rollback: RollbackBatch = rollback_trees_kv):
        self.pool = pool
        self.rollback = rollback
        self.seed = seed
        self.random = random.Random(seed)
        self.max_length = POOL_SIZES[pool.page_size][1]
        self.live: list[Request] = []  # oldest first
        self.waiting: list[list[int]] = []  # token ids of preempted requests
        self.counts: Counter[str] = Counter()

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
        return self._report(rounds)

    def step(self) -> None:
        """One random action."""
        if not self.live:
            action = self.admit
        elif len(self.live) > MAX_LIVE:
            action = self.finish
        else:
            actions = (self.verify, self.admit, self.fork, self.preempt, self.abort, self.finish)
            action = self.random.choices(actions, (10, 3, 1, 1, 1, 1))[0]
        self.counts[action.__name__] += 1
        action()

    def check_content(self, requests: Sequence[Request]) -> None:
        """Compare all live tokens of these requests with a fresh prefill."""
        if not requests:
            return
        tables, lens = self.pool.prepare_block_tables([r.kv for r in requests])
        k, v = self.pool.gather_kv(0, tables, int(lens.max()))
        for row, negative, request in zip(k[:, :, 0], v[:, :, 0], requests, strict=True):
            expected = fresh_prefill(request.token_ids)
            if request.kv.length != len(expected):
                raise WrongKV(f"length {request.kv.length}, {len(expected)} tokens accepted")
            is_wrong = (row[: len(expected)] != expected) | (negative[: len(expected)] != -expected)
            if is_wrong.any():
                position = int(is_wrong.any(dim=1).nonzero()[0])
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
        self.counts["tokens_from_cache"] += num_done
        rows = fresh_prefill(token_ids)
        while num_done < len(token_ids):
            num_chunk = self.random.randint(1, len(token_ids) - num_done)
            slots = self._reserve(request, num_chunk)
            if slots is None:
                return
            self._write([slots], [rows[num_done : num_done + num_chunk]])
            self.pool.commit(request.kv, num_chunk)
            self.pool.publish(request.kv, token_ids)
            num_done += num_chunk

    def verify(self) -> None:
        """Trees of one to three requests in one batch; each accepts some path or nothing."""
        batch = []
        for request, tree in self._draft(self.random.choice((1, 1, 2, 3))):
            path = tree.path_to(self.random.randrange(tree.num_nodes))
            batch.append((request, tree, path[: self.random.randint(0, len(path))]))
        self.rollback(self.pool, [(r.kv, tree, path) for r, tree, path in batch])
        for request, tree, path in batch:
            request.token_ids += [tree.token_ids[node] for node in path]
            self.counts["accepted" if path else "rejected"] += 1
            if self.random.random() < 0.7:
                self.pool.publish(request.kv, request.token_ids)
            if len(request.token_ids) > self.max_length - MAX_NODES:
                self.drop(request)

    def fork(self) -> None:
        """A second continuation of the same tokens."""
        request = self.random.choice(self.live)
        self.live.append(Request(list(request.token_ids), self.pool.fork(request.kv)))

    def preempt(self) -> None:
        """Take the youngest request's pages; its tokens wait for a later prefill."""
        self.waiting.append(self.live[-1].token_ids)
        self.drop(self.live[-1])

    def abort(self) -> None:
        """The client leaves while its tree is being verified."""
        for request, _ in self._draft(1):
            self.drop(request)

    def finish(self) -> None:
        """A request ends between two rounds."""
        self.drop(self.random.choice(self.live))

    def drop(self, request: Request) -> None:
        """The request is no more; its pages go back."""
        self.live.remove(request)
        self.pool.release(request.kv)

    # Parts of actions

    def _draft(self, batch_size: int) -> list[tuple[Request, RandomTree]]:
        """Reserve and write trees for some requests; those preempted meanwhile are left out."""
        chosen = self.random.sample(self.live, min(batch_size, len(self.live)))
        trees = [self._random_tree() for _ in chosen]
        slots = [self._reserve(r, tree.num_nodes) for r, tree in zip(chosen, trees, strict=True)]
        batch = [
            (request, tree, own_slots)
            for request, tree, own_slots in zip(chosen, trees, slots, strict=True)
            if own_slots is not None and request in self.live
        ]
        if batch:
            self._write([s for *_, s in batch], [t.kv_rows(r.token_ids) for r, t, _ in batch])
        return [(request, tree) for request, tree, _ in batch]

    def _random_tree(self) -> RandomTree:
        count = self.random.randint(1, MAX_NODES)
        is_chain = self.pool.policy is RollbackPolicy.COUNTER or self.random.random() < 0.2
        parents = [i - 1 if is_chain else self.random.randrange(max(i, 1)) for i in range(count)]
        return RandomTree([-1, *parents[1:]], self.random.choices(range(VOCABULARY), k=count))

    def _reserve(self, request: Request, num_nodes: int) -> torch.Tensor | None:
        """Slots, preempting the youngest until there are enough; None: that was itself."""
        while request in self.live:
            try:
                return self.pool.reserve_tree(request.kv, num_nodes)
            except OutOfPages:
                self.counts["out_of_pages"] += 1
                check_integrity(self.pool, [r.kv for r in self.live])
                self.preempt()
        return None

    def _write(self, slots: list[torch.Tensor], rows: list[torch.Tensor]) -> None:
        k = torch.cat(rows)[:, None]
        self.pool.write_kv(0, torch.cat(slots), k, -k)

    def _random_prompt(self) -> list[int]:
        """Often an old prompt's beginning, so that prefixes are shared, with a tail of its own."""
        longest = self.max_length // 2
        old = self.random.choice(self.live).token_ids if self.live else []
        prefix = old[: self.random.randint(0, longest - 1)]
        tail = self.random.randint(1, longest - len(prefix))
        return prefix + self.random.choices(range(VOCABULARY), k=tail)

    def _report(self, rounds: int) -> SoakReport:
        pool = self.pool
        ends = {"evicted": pool.allocator.num_evicted, "peak_pages": pool.allocator.peak_owned}
        counts = {**self.counts, **ends, **vars(pool.counters)}
        return SoakReport(self.seed, pool.page_size, pool.policy.value, rounds, counts)


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
