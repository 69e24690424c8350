"""When requests arrive: a schedule drawn in advance, which no slow system can hold up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.runtime import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OpenLoop:
    """Independent users: gaps between arrivals are Gamma distributed with mean 1 / rate.

    rate: requests per second. burstiness is the shape of the Gamma law, as in vLLM's serving
    benchmark: 1 is Poisson, below 1 burstier, above 1 more even, math.inf constant. The coefficient
    of variation of the gaps is 1 / sqrt(burstiness).
    """

    rate: float
    burstiness: float = 1.0

    def __post_init__(self) -> None:
        if not (self.rate > 0 and math.isfinite(self.rate)):
            raise InputError(f"rate must be above 0 requests per second, got {self.rate}")
        if not self.burstiness > 0:
            raise InputError(f"burstiness must be above 0, got {self.burstiness}")

    @property
    def law(self) -> str:
        """ "poisson", "gamma" or "constant"."""
        return {1.0: "poisson", math.inf: "constant"}.get(self.burstiness, "gamma")

    def times(self, num_requests: int, seed: int) -> Floats:
        """Seconds after the start at which to send, [num_requests] float64, first gap included.

        The draws stay as they fall: rescaling them to an exact total would take away the variance
        that a queue feels.
        """
        if num_requests < 1:
            raise InputError(f"a schedule needs at least one request, got {num_requests}")
        if math.isinf(self.burstiness):
            return np.arange(1, num_requests + 1) / self.rate
        scale = 1 / (self.rate * self.burstiness)
        gaps = np.random.default_rng(seed).gamma(self.burstiness, scale, num_requests)
        return np.cumsum(gaps)


@dataclass(frozen=True)
class ClosedLoop:
    """A fixed number of users; each sends its next request when its last one is answered.

    Such users slow down with the system, so a closed loop shows throughput and hides queueing.
    """

    concurrency: int

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise InputError(f"concurrency must be 1 or more, got {self.concurrency}")


Arrivals = OpenLoop | ClosedLoop


def read_arrivals(row: Mapping[str, Any]) -> Arrivals:
    """The load that `run_ledger.describe_arrivals` described."""
    if row["loop"] == "closed":
        return ClosedLoop(row["concurrency"])
    return OpenLoop(row["rate"], math.inf if row["burstiness"] is None else row["burstiness"])
