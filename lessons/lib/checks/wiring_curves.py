"""Acceptance curves of right and wrong MTP wirings: as measured, and others drawn from them.

Drawn curves take the measured rates for the truth, also where few rounds got that far: at position
5 they rest on 26 rounds of the right wiring and 11 of `target_again`.
"""

from __future__ import annotations

import math
import random

Curve = list[int]  # rounds, then those in which at least 1, 2, ... drafts were accepted

NAMES = ("right", "unshifted", "target_again", "stale")
# Wiring -> kind of prompt -> curve, from course/results/mtp_wirings.json.
COUNTS: dict[str, dict[str, Curve]] = {
    "right": {
        "maths": [228, 78, 31, 12, 5, 3],
        "json": [134, 86, 62, 34, 22, 19],
        "code": [201, 77, 32, 12, 6, 4],
        "copy": [203, 59, 18, 6, 0, 0],
        "chat": [261, 71, 20, 4, 0, 0],
    },
    "unshifted": {
        "maths": [327, 27, 1, 0, 0, 0],
        "json": [350, 3, 1, 0, 0, 0],
        "code": [302, 29, 0, 0, 0, 0],
        "copy": [271, 15, 0, 0, 0, 0],
        "chat": [341, 13, 0, 0, 0, 0],
    },
    "target_again": {
        "maths": [230, 79, 30, 11, 6, 1],
        "json": [140, 94, 69, 33, 20, 8],
        "code": [211, 80, 26, 12, 6, 2],
        "copy": [206, 58, 21, 1, 0, 0],
        "chat": [262, 71, 21, 1, 0, 0],
    },
    "stale": {
        "maths": [334, 12, 3, 2, 2, 1],
        "json": [293, 23, 14, 8, 8, 8],
        "code": [316, 8, 4, 2, 0, 0],
        "copy": [260, 16, 6, 4, 0, 0],
        "chat": [345, 9, 0, 0, 0, 0],
    },
    "same_position": {
        "maths": [229, 79, 29, 12, 5, 3],
        "json": [134, 83, 62, 35, 23, 19],
        "code": [202, 77, 35, 11, 6, 1],
        "copy": [197, 59, 19, 11, 0, 0],
        "chat": [260, 70, 22, 2, 1, 0],
    },
}
MIN_ROUNDS, MAX_ROUNDS = 40_000, 80_000  # enough for the rarest of the counts
MAX_SHARE = 4.0  # of a kind of prompt, against another's


def drawn_pair(rng: random.Random, wiring: str) -> tuple[Curve, Curve]:
    """(of the right wiring, of `wiring`) on one mixture of prompts; the first over about twice as
    many rounds, so that counts cannot be compared as they are."""
    shares = {kind: rng.uniform(1, MAX_SHARE) for kind in COUNTS["right"]}
    num_rounds = rng.randint(MIN_ROUNDS, MAX_ROUNDS)
    reference = drawn("right", shares, 2 * rng.randint(MIN_ROUNDS, MAX_ROUNDS), rng)
    return reference, drawn(wiring, shares, num_rounds, rng)


def drawn(wiring: str, shares: dict[str, float], num_rounds: int, rng: random.Random) -> Curve:
    """A curve of new rounds, each kind at its measured rates. shares: by kind, any sum."""
    total, curves = sum(shares.values()), []
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
