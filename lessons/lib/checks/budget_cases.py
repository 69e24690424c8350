"""Lab 8G: what lengths yield, drawn confidences and cost tables, and the law of a first token."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from operator import mul

REL_TOL = 1e-9
Blocks = list[list[float]]


@dataclass(frozen=True)
class Case:
    """Confidences of two steps ago and of now, and what a step of so many rows costs."""

    old: Blocks
    now: Blocks
    cost_ms: list[float]

    @property
    def arguments(self) -> tuple[Blocks, Blocks, list[float]]:
        """As `verify_lengths` takes them."""
        return [list(b) for b in self.old], [list(b) for b in self.now], list(self.cost_ms)

    @property
    def num_drafts(self) -> int:
        """Of all requests."""
        return sum(map(len, self.now))


def survivals(block: Sequence[float]) -> list[float]:
    """c_1, c_1 c_2, ..."""
    return list(accumulate(block, mul))


def tokens_of(blocks: Blocks, lengths: Sequence[int]) -> float:
    """Expected tokens of a step: one of each request for certain, and the drafts that survive."""
    pairs = zip(blocks, lengths, strict=True)
    return len(blocks) + math.fsum(math.fsum(survivals(block)[:n]) for block, n in pairs)


def best_yields(blocks: Blocks) -> list[float]:
    """For each budget the most expected tokens, by trying every allocation."""
    best = [0.0] * (1 + sum(map(len, blocks)))
    for lengths in product(*(range(len(block) + 1) for block in blocks)):
        budget = sum(lengths)
        best[budget] = max(best[budget], tokens_of(blocks, lengths))
    return best


def sorted_yields(blocks: Blocks) -> list[float]:
    """The same where allocations are too many to try; tests compare the two."""
    drafts = sorted((s for block in blocks for s in survivals(block)), reverse=True)
    return list(accumulate(drafts, initial=float(len(blocks))))


def throughputs(yields: Sequence[float], case: Case) -> list[float]:
    """Tokens per ms of each budget."""
    batch = len(case.now)
    return [tokens / case.cost_ms[batch + k] for k, tokens in enumerate(yields)]


def random_case(
    rng: random.Random, num_requests: int, max_len: int = 4, is_steady: bool = False
) -> Case:
    """is_steady: nothing has changed since two steps ago."""
    sizes = [rng.randint(0 if place else 1, max_len) for place in range(num_requests)]
    old = [confidences(rng, size) for size in sizes]
    now = [list(b) for b in old] if is_steady else [confidences(rng, size) for size in sizes]
    return Case(old, now, staircase(rng, num_requests + sum(sizes)))


def confidences(rng: random.Random, count: int) -> list[float]:
    top = rng.choice((0.7, 0.95, 1.0))
    return [top * rng.random() ** 0.4 for _ in range(count)]


def staircase(rng: random.Random, max_rows: int) -> list[float]:
    """Measured-like step times by rows: flat inside a tile, a riser of random height behind it."""
    times, now, tile = [0.0], rng.uniform(2, 6), rng.choice((1, 2, 3, 4, 8))
    for rows in range(1, max_rows + 1):
        is_riser = rows > 1 and (rows - 1) % tile == 0
        now += rng.uniform(0.1, 0.5) * tile * rng.choice((0.2, 1, 3)) if is_riser else 0.001
        times.append(now)
    return times


def first_token_law(
    target: Sequence[float], draft: Sequence[float], lengths: Sequence[int]
) -> list[float]:
    """Exact law of a round's first token, where draft x is verified if lengths[x] > 0.

    A verified draft is accepted or replaced by the residual; one that is not, is thrown away, and
    the target draws. So any choice is allowed that is the same for all x.
    """
    residual = [max(p - q, 0.0) for p, q in zip(target, draft, strict=True)]
    lost, law = math.fsum(residual), [0.0] * len(target)
    for token, chance in enumerate(draft):
        accepted = min(1.0, target[token] / chance) if lengths[token] else 0.0
        law[token] += chance * accepted
        rest = [r / lost for r in residual] if lengths[token] and lost else target
        for other, share in enumerate(rest):
            law[other] += chance * (1 - accepted) * share
    return law
