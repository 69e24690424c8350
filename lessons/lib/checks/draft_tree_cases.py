"""Candidates of a draft tree as a beam search finds them, and the best beam and tree by definition.

Log-probabilities are often multiples of 1/4: sums of them are exact in any order, and many scores
are equal.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

MAX_LEVELS, MAX_WIDTH, MAX_NODES = 5, 4, 24


@dataclass(frozen=True)
class Candidates:
    """parents[i]: the candidate that i continues, -1 for the context. log_probs[i]: of i behind it.
    Level by level; the children of one stand together, the likeliest first."""

    parents: list[int]
    log_probs: list[float]

    @property
    def scores(self) -> list[float]:
        """Cumulative log-probabilities."""
        scores: list[float] = []
        for parent, value in zip(self.parents, self.log_probs, strict=True):
            scores.append(value + (scores[parent] if parent >= 0 else 0.0))
        return scores

    @property
    def last_level(self) -> list[int]:
        """The deepest candidates."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 + (depths[parent] if parent >= 0 else 0))
        return [node for node, depth in enumerate(depths) if depth == max(depths)]


def likeliest(nodes: Sequence[int], scores: Sequence[float], count: int) -> list[int]:
    """The best `count`, in the order of the candidates; of equals those found first."""
    return sorted(sorted(nodes, key=lambda node: (-scores[node], node))[:count])


def yield_of(nodes: Sequence[int], scores: Sequence[float]) -> float:
    """Accepted guesses to be expected, if the drafter's probabilities were the truth."""
    return math.fsum(math.exp(scores[node]) for node in nodes)


def random_candidates(
    rng: random.Random, width: int, num_levels: int, is_coarse: bool
) -> Candidates:
    """Grown by beam search; is_coarse: multiples of 1/4, so that there are ties."""
    made, beam = Candidates([], []), [-1]
    for _ in range(num_levels):
        for parent in beam:
            made.parents.extend([parent] * width)
            made.log_probs.extend(_children(rng, width, is_coarse))
        beam = likeliest(made.last_level, made.scores, width)
    return made


def _children(rng: random.Random, width: int, is_coarse: bool) -> list[float]:
    """A node that is sure of its first child in a third of the cases."""
    if is_coarse:
        values = [-rng.choice((1, 2, 3, 4, 6, 8, 12)) / 4 for _ in range(width)]
        values[0] = 0.0 if rng.random() < 0.3 else values[0]
    else:
        weights = [rng.random() ** 3 for _ in range(width + 1)]
        values = [math.log(weight / sum(weights)) for weight in weights[:width]]
    return sorted(values, reverse=True)


def some_candidates(rng: random.Random, number: int) -> Candidates:
    """Of all sizes, with and without ties."""
    width, levels = 1 + number % MAX_WIDTH, rng.randint(1, MAX_LEVELS)
    return random_candidates(rng, width, levels, is_coarse=number % 3 > 0)
