"""Confidences that mean what they say: sequential temperature scaling.

Ranking drafts needs only their order, a budget needs their survivals to be true. The head says
sigmoid(logit) for each position; a survival is a product, so small errors of one sign pile up. One
temperature a position is fitted, from left to right, each to make the product up to there true.
Rule: sequential temperature scaling of arXiv 2607.05147.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernels.runtime import InputError

Floats = NDArray[np.float64]
GRID = np.geomspace(0.1, 10.0, 81)  # holds 1 exactly in the middle


def calibration_error(probs: Floats, outcomes: NDArray[np.bool_], num_bins: int = 10) -> float:
    """Expected calibration error: how far bins of equal width are off, weighted by their size.

    probs, outcomes [n]: what was said of n events and which of them happened.
    """
    bins = np.minimum((probs * num_bins).astype(int), num_bins - 1)
    gaps = np.bincount(bins, weights=probs - outcomes, minlength=num_bins)
    return float(np.abs(gaps).sum() / len(probs))


def confidences(logits: Floats, temperatures: Sequence[float]) -> Floats:
    """logits [..., positions], one temperature a position -> chances [..., positions]."""
    return 1 / (1 + np.exp(-logits / np.asarray(temperatures)))


def fit_temperatures(logits: Floats, accepted: NDArray[np.int64]) -> list[float]:
    """One temperature for each position.

    logits [n, positions] of n whole blocks that were verified whole; accepted [n] drafts of each
    that were kept. Of equally good temperatures the one nearest to 1 is taken.
    """
    if logits.ndim != 2 or not len(logits) or accepted.shape != logits.shape[:1]:
        raise InputError(
            f"calibration: logits {list(logits.shape)} and accepted {list(accepted.shape)}; "
            "give [blocks, positions] and [blocks], at least one block"
        )
    temperatures: list[float] = []
    survival = np.ones(len(logits))
    nearest_first = GRID[np.argsort(np.abs(np.log(GRID)), kind="stable")]
    for position, column in enumerate(logits.T):
        is_kept = accepted > position
        products = [survival * confidences(column, [t]) for t in nearest_first]
        best = int(np.argmin([calibration_error(product, is_kept) for product in products]))
        temperatures.append(float(nearest_first[best]))
        survival = products[best]
    return temperatures
