"""Acceptance curves of right and wrong MTP wirings: as measured, and others drawn from them."""

from __future__ import annotations

import math
import random

Curve = list[int]  # rounds, then those in which at least 1, 2, ... drafts were accepted

NAMES = ("right", "unshifted", "target_again", "stale")
# Wiring -> kind of prompt -> curve, from course/results/mtp_wirings.json.
COUNTS: dict[str, dict[str, Curve]] = {
    "right": {"all": [1082, 408, 181, 92, 50, 30]},
    "unshifted": {"all": [1647, 90, 2, 0, 0, 0]},
    "target_again": {"all": [1103, 405, 182, 66, 25, 9]},
    "stale": {"all": [1612, 74, 31, 21, 14, 9]},
    "same_position": {"all": [1079, 408, 185, 91, 50, 30]},
}
MIN_ROUNDS, MAX_ROUNDS = 12_000, 24_000  # as a service counts them in a few minutes
MAX_SHARE = 4.0  # of a kind of prompt, against another's


def drawn_pair(rng: random.Random, wiring: str) -> tuple[Curve, Curve]:
    """(of the right wiring, of `wiring`) on one mixture of prompts, each over rounds of its own."""
    shares = {kind: rng.uniform(1, MAX_SHARE) for kind in COUNTS["right"]}
    return drawn("right", shares, rng), drawn(wiring, shares, rng)


def drawn(wiring: str, shares: dict[str, float], rng: random.Random) -> Curve:
    """A curve of new rounds, each kind at its measured rates. shares: by kind, any sum."""
    num_rounds, total = rng.randint(MIN_ROUNDS, MAX_ROUNDS), sum(shares.values())
    curves = []
    for kind, share in shares.items():
        measured = COUNTS[wiring][kind]
        curve = [round(num_rounds * share / total)]
        for before, now in zip(measured, measured[1:], strict=False):
            curve.append(binomial(rng, curve[-1], now / before if before else 0.0))
        curves.append(curve)
    return [sum(column) for column in zip(*curves, strict=True)]


def binomial(rng: random.Random, count: int, chance: float) -> int:
    """How many of `count` happen: one by one where there are few, else by the normal law."""
    if count < 100:
        return sum(rng.random() < chance for _ in range(count))
    drawn = rng.gauss(count * chance, math.sqrt(count * chance * (1 - chance)))
    return min(count, max(0, round(drawn)))
