"""Small worlds of laws, in which everything that verification can put out is enumerated exactly."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

Law = list[float]
Drafts = tuple[int, ...]


def random_law(rng: random.Random, size: int, num_zeros: int = 0) -> Law:
    """A law over `size` tokens, of which `num_zeros` have no chance; none is very unlikely."""
    weights = [rng.uniform(0.15, 1.0) for _ in range(size)]
    for token in rng.sample(range(size), num_zeros):
        weights[token] = 0.0
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def same_law(one: Sequence[float], other: Sequence[float], tol: float = 1e-9) -> bool:
    """Total variation below `tol`."""
    return math.fsum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2 < tol


class World:
    """Draft and target laws for every text of up to `depth` tokens, and what came out so far.

    After the emitted tokens the target goes on by itself, as later rounds would.
    """

    def __init__(self, laws: dict[Drafts, tuple[Law, Law]], num_tokens: int, depth: int) -> None:
        self.laws, self.num_tokens, self.depth = laws, num_tokens, depth
        self.output: dict[Drafts, float] = {}

    def target(self, drafts: Sequence[int]) -> list[Law]:
        """The target's rows along a chain: one more than drafts."""
        return [list(self.laws[tuple(drafts[:n])][0]) for n in range(len(drafts) + 1)]

    def draft(self, drafts: Sequence[int]) -> list[Law]:
        """The rows that the drafts were drawn from."""
        return [list(self.laws[tuple(drafts[:n])][1]) for n in range(len(drafts))]

    def all_drafts(self) -> Iterator[Drafts]:
        """Every chain that may be drafted."""
        for drafts in itertools.product(range(self.num_tokens), repeat=self.depth):
            if self.chance_drafted(drafts) > 0:
                yield drafts

    def draw(self, rng: random.Random) -> Drafts:
        """A chain drawn from the draft's laws."""
        drafts: list[int] = []
        for _ in range(self.depth):
            drafts += rng.choices(range(self.num_tokens), self.laws[tuple(drafts)][1])
        return tuple(drafts)

    def chance_drafted(self, drafts: Sequence[int]) -> float:
        """Of a chain, under the draft's laws."""
        return math.prod(row[x] for row, x in zip(self.draft(drafts), drafts, strict=True))

    def chances_to_stay(self, drafts: Sequence[int]) -> list[float]:
        """min(1, target / draft) of each draft."""
        rows = zip(self.target(drafts), self.draft(drafts), drafts, strict=False)
        return [min(1.0, target[x] / draft[x]) for target, draft, x in rows]

    def coins_by_outcome(
        self, drafts: Sequence[int], rng: random.Random
    ) -> Iterator[tuple[float, int, list[float]]]:
        """Every way a round may end that can happen: (its chance, drafts kept, coins for it).

        The coins lie anywhere in the region that leads there; those behind a rejection are free.
        """
        chances = self.chances_to_stay(drafts)
        for kept in range(len(drafts) + 1):
            region = math.prod(chances[:kept])
            coins = [rng.uniform(0.0, chance) * (1 - 1e-9) for chance in chances[:kept]]
            if kept < len(drafts):
                region *= 1.0 - chances[kept]
                coins.append(rng.uniform(chances[kept], 1.0))
            coins += [rng.random() for _ in range(len(drafts) - len(coins))]
            if region > 1e-12:
                yield region, kept, coins

    def add(self, drafts: Sequence[int], answer: tuple[int, Law], region: float) -> None:
        """Count what a round puts out, with the chance that it happens."""
        num_accepted, law = answer
        chance = self.chance_drafted(drafts) * region
        for token, share in enumerate(law):
            if share:
                self._go_on((*drafts[:num_accepted], token), chance * share)

    def _go_on(self, text: Drafts, chance: float) -> None:
        if len(text) > self.depth:
            self.output[text] = self.output.get(text, 0.0) + chance
            return
        for token, share in enumerate(self.laws[text][0]):
            self._go_on((*text, token), chance * share)

    def error(self) -> float:
        """Total variation between what came out and the target's law of depth + 1 tokens."""
        texts = itertools.product(range(self.num_tokens), repeat=self.depth + 1)
        gaps = [abs(self.output.get(text, 0.0) - self._chance_of_text(text)) for text in texts]
        return math.fsum(gaps) / 2

    def _chance_of_text(self, text: Drafts) -> float:
        return math.prod(self.laws[text[:n]][0][token] for n, token in enumerate(text))


def random_world(rng: random.Random, num_tokens: int, depth: int) -> World:
    """Laws that differ at every text; the target leaves no token out, the draft one at times."""
    laws = {}
    for length in range(depth + 1):
        for text in itertools.product(range(num_tokens), repeat=length):
            zeros = int(rng.random() < 0.3)
            laws[text] = (random_law(rng, num_tokens), random_law(rng, num_tokens, zeros))
    return World(laws, num_tokens, depth)
