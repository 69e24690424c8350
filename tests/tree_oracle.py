"""Judges of a sampler: exact enumeration of its output law, and a chi-square test of its draws.

A sampler is `sampler(world, dice) -> tokens`: it drafts from `world.draft`, verifies against
`world.target` and returns the tokens of one round. The round is continued with the target's own law
up to two tokens, so the joint law of (x1, x2) can be compared with plain sampling.
"""

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache

import torch

from lessons.lib.sampling import SeededRandom

NUM_TOKENS = 2


@dataclass(frozen=True)
class World:
    """Fixed laws of target and draft after every prefix: random, sharp and unlike each other."""

    seed: int = 0
    vocab_size: int = 4

    def target(self, prefix=()):
        return random_logits(self, prefix, 1).softmax(-1)

    def draft(self, prefix=(), temperature=1.0, top_k=0):
        logits = random_logits(self, prefix, 2) / temperature
        if top_k:
            logits = logits.masked_fill(logits < logits.topk(top_k).values[-1], -torch.inf)
        return logits.softmax(-1)


@cache
def random_logits(world, prefix, kind):
    key = (world.seed * 7919 + kind) * 1009 + sum((t + 1) * 31**i for i, t in enumerate(prefix))
    generator = torch.Generator().manual_seed(key)
    return torch.randn(world.vocab_size, generator=generator, dtype=torch.float64) * 1.5


class Branching:
    """Dice that enumerate: one run follows `choices`, then the first possible outcome of each draw.

    A coin is one uniform number a position, as in SeededRandom: known only to lie in an interval,
    which each comparison narrows.
    """

    def __init__(self, choices):
        self.choices, self.trace, self.probability = choices, [], 1.0
        self._coins, self._drawn = defaultdict(lambda: (0.0, 1.0)), set()

    @property
    def verify(self):
        return self

    def _choose(self, probs):
        step = len(self.trace)
        possible = [index for index, prob in enumerate(probs) if prob > 0]
        index = self.choices[step] if step < len(self.choices) else possible[0]
        self.trace.append((index, possible))
        self.probability *= float(probs[index])
        return index

    def accepts(self, probability, position):
        low, high = self._coins[position]
        if probability <= low or probability >= high:
            return probability >= high
        below = (probability - low) / (high - low)
        accepted = self._choose([below, 1 - below]) == 0
        self._coins[position] = (low, probability) if accepted else (probability, high)
        return accepted

    def draw(self, probs, position):
        assert position not in self._drawn, "two draws from one random number"
        self._drawn.add(position)
        probs = probs.double()
        return self._choose((probs / probs.sum()).tolist())

    def draft(self, probs, slot):
        return self.draw(probs, ("draft", slot))


class Seeded:
    """Dice of one trial: the engine's own random numbers."""

    def __init__(self, seed):
        self.verify = SeededRandom(seed)
        self._draft = SeededRandom(seed, is_draft=True)

    def draft(self, probs, slot):
        return self._draft.draw(probs, slot)


def enumerate_outcomes(run):
    """{outcome: probability} of `run(dice)`, over every outcome of every random event."""
    law, pending = Counter(), [[]]
    while pending:
        dice = Branching(pending.pop())
        law[run(dice)] += dice.probability
        for step in range(len(dice.choices), len(dice.trace)):
            before = [index for index, _ in dice.trace[:step]]
            pending += [[*before, other] for other in dice.trace[step][1][1:]]
    return law


def two_token_law(world, tokens_law):
    """Joint law [vocab ** 2] of the first two tokens, short rounds continued by the target."""
    joint = Counter()
    for tokens, probability in tokens_law.items():
        if len(tokens) >= NUM_TOKENS:
            joint[tokens[:NUM_TOKENS]] += probability
            continue
        for token, continued in enumerate(world.target(tokens).tolist()):
            joint[(*tokens, token)] += probability * continued
    pairs = itertools.product(range(world.vocab_size), repeat=NUM_TOKENS)
    return torch.tensor([joint[pair] for pair in pairs], dtype=torch.float64)


def target_law(world):
    """The joint law [vocab ** 2] that plain sampling has."""
    return torch.cat([p * world.target((token,)) for token, p in enumerate(world.target())])


def exact_law(world, sampler):
    return two_token_law(world, enumerate_outcomes(lambda dice: tuple(sampler(world, dice))))


def total_variation(one, other):
    return float((one - other).abs().sum()) / 2


def chi_square_p_value(counts, law):
    """p-value of `counts` under `law`; cells that expect fewer than five are merged."""
    expected = law * counts.sum()
    rare = expected < 5
    observed = torch.cat([counts[~rare], counts[rare].sum(0, keepdim=True)])
    expected = torch.cat([expected[~rare], expected[rare].sum(0, keepdim=True)])
    observed, expected = observed[expected > 0], expected[expected > 0]
    statistic = ((observed - expected) ** 2 / expected).sum()
    freedom = torch.tensor((len(expected) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2))


def draw_counts(world, sampler, num_trials, first_seed=0):
    """Counts [vocab ** 2] of the first two tokens over `num_trials` rounds."""
    counts = torch.zeros(world.vocab_size**NUM_TOKENS, dtype=torch.float64)
    for seed in range(first_seed, first_seed + num_trials):
        tokens = tuple(sampler(world, Seeded(seed)))[:NUM_TOKENS]
        if len(tokens) < NUM_TOKENS:
            tokens = (*tokens, SeededRandom(seed).draw(world.target(tokens), 100))
        counts[tokens[0] * world.vocab_size + tokens[1]] += 1
    return counts
