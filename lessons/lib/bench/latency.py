"""What the users of a server felt, from the log of their requests. Definitions, per request:

TTFT   first token - sent.
TPOT   (last token - first token) / tokens after the first chunk: the time of one more token. Where
       the first chunk carries one token this is the usual (end - TTFT) / (output length - 1);
       further tokens of the first chunk took no further time and are not counted.
ITL    gap between neighbouring chunks, whatever number of tokens they carry. With speculation a
       chunk carries several tokens, so gaps grow while TPOT falls: ITL tells how smooth a stream
       is and is never a time per token.
e2e    end of the stream - sent.
SLO goodput   requests per second that finished and kept every limit set, over the run.

Times run from `sent`, so that a driver that sends late does not blame the server; by how much it
was late is reported beside, and a run with a late driver is not valid (driver.py).
A figure that cannot be had is None, and `missing` says why; it is never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from kernels.runtime import InputError

PERCENTILES = (50, 99)
MIN_VALUES = {50: 1, 99: 100}  # of fewer than a hundred values the 99th percentile is the maximum
FIGURES = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")

Json = dict[str, Any]


class Chunk(NamedTuple):
    """One message of a stream that brought tokens."""

    time_s: float
    num_tokens: int


@dataclass(frozen=True)
class RequestLog:
    """What the driver saw of one request; seconds on one clock.

    scheduled_s  None in a closed loop, where nothing but the last answer decides when to send
    chunks       in order; chunks without tokens are left out
    error        None for a stream that ended well
    """

    request_id: str
    sent_s: float
    end_s: float
    chunks: tuple[Chunk, ...]
    scheduled_s: float | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        times = [self.sent_s, *(chunk.time_s for chunk in self.chunks), self.end_s]
        if times != sorted(times):
            raise InputError(f"request {self.request_id}: its times run backwards: {times}")
        if any(chunk.num_tokens < 1 for chunk in self.chunks):
            raise InputError(f"request {self.request_id}: a chunk without tokens")
        if self.scheduled_s is not None and self.sent_s < self.scheduled_s:
            raise InputError(f"request {self.request_id}: sent before its time")

    @property
    def output_tokens(self) -> int:
        """Tokens received, counted by what chunks carry and not by chunks."""
        return sum(chunk.num_tokens for chunk in self.chunks)

    @property
    def ttft_ms(self) -> float | None:
        """None when no token came."""
        return 1000 * (self.chunks[0].time_s - self.sent_s) if self.chunks else None

    @property
    def tpot_ms(self) -> float | None:
        """None when no token came after the first chunk."""
        later = sum(chunk.num_tokens for chunk in self.chunks[1:])
        return 1000 * (self.chunks[-1].time_s - self.chunks[0].time_s) / later if later else None

    @property
    def itl_ms(self) -> list[float]:
        """Gaps between chunks."""
        pairs = zip(self.chunks, self.chunks[1:], strict=False)
        return [1000 * (after.time_s - before.time_s) for before, after in pairs]

    @property
    def e2e_ms(self) -> float:
        """Length of the whole exchange."""
        return 1000 * (self.end_s - self.sent_s)

    @property
    def lateness_ms(self) -> float | None:
        """How long after its scheduled time the request left; None in a closed loop."""
        return None if self.scheduled_s is None else 1000 * (self.sent_s - self.scheduled_s)


@dataclass(frozen=True)
class Slo:
    """Limits in milliseconds that a good request keeps, all of them; None sets no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None

    def __post_init__(self) -> None:
        limits = [limit for limit in asdict(self).values() if limit is not None]
        if not limits or min(limits) <= 0:
            raise InputError("an SLO needs at least one limit, in milliseconds above 0")

    def holds(self, log: RequestLog) -> bool:
        """A request without TPOT (all its tokens came at once) cannot break a TPOT limit; one
        without any token breaks a TTFT limit, and one that failed is never good."""
        if log.error is not None or (self.ttft_ms is not None and log.ttft_ms is None):
            return False
        felt = (log.ttft_ms, log.tpot_ms, log.e2e_ms)
        limits = (self.ttft_ms, self.tpot_ms, self.e2e_ms)
        return all(
            limit is None or value is None or value <= limit
            for value, limit in zip(felt, limits, strict=True)
        )


def duration_s(logs: Sequence[RequestLog]) -> float:
    """From the first arrival (its scheduled time where it has one) to the last end."""
    starts = [log.sent_s if log.scheduled_s is None else log.scheduled_s for log in logs]
    return max(log.end_s for log in logs) - min(starts)


def summarise(logs: Sequence[RequestLog], slo: Slo | None = None) -> Json:
    """All figures of a run as plain data: milliseconds, seconds, tokens and requests per second.

    Failed requests count in num_failed and against goodput; their times enter no percentile.
    """
    if not logs:
        raise InputError("no requests: nothing to summarise")
    finished = [log for log in logs if log.error is None]
    seconds = duration_s(logs)
    tokens = sum(log.output_tokens for log in finished)
    good = sum(slo.holds(log) for log in logs) if slo else None
    missing: dict[str, str] = {}
    row: Json = {
        "num_requests": len(logs),
        "num_failed": len(logs) - len(finished),
        "duration_s": seconds,
        "output_tokens": tokens,
        "output_tokens_per_s": _rate(tokens, seconds),
        "requests_per_s": _rate(len(finished), seconds),
        "slo": asdict(slo) if slo else None,
        "num_good": good,
        "goodput_rps": None if good is None else _rate(good, seconds),
    }
    for name, values in _distributions(finished).items():
        row[name] = spread(values, name, missing)
    chunks = sum(len(log.chunks) for log in finished)
    row["tokens_per_chunk"] = tokens / chunks if chunks else None
    lateness = [log.lateness_ms for log in logs if log.lateness_ms is not None]
    row["lateness_ms"] = spread(lateness, "lateness_ms", missing)
    return row | {"missing": _explain(row) | missing}


def _distributions(logs: Sequence[RequestLog]) -> dict[str, list[float]]:
    return {
        "ttft_ms": [log.ttft_ms for log in logs if log.ttft_ms is not None],
        "tpot_ms": [log.tpot_ms for log in logs if log.tpot_ms is not None],
        "itl_ms": [gap for log in logs for gap in log.itl_ms],
        "e2e_ms": [log.e2e_ms for log in logs],
    }


def spread(values: Sequence[float], name: str, missing: dict[str, str]) -> Json | None:
    """{"mean", "p50", "p99", "max", "count"}; why something is None is added to `missing`.

    Percentiles interpolate between neighbouring values.
    """
    if not values:
        return None
    row: Json = {"mean": float(np.mean(values)), "max": max(values), "count": len(values)}
    for percent in PERCENTILES:
        enough = len(values) >= MIN_VALUES[percent]
        row[f"p{percent}"] = float(np.percentile(values, percent)) if enough else None
        if not enough:
            missing[f"{name}.p{percent}"] = f"needs {MIN_VALUES[percent]} values, has {len(values)}"
    return row


def _rate(amount: int, seconds: float) -> float | None:
    return amount / seconds if seconds > 0 else None


def _explain(row: Json) -> dict[str, str]:
    reasons = {
        "slo": "no SLO was stated",
        "num_good": "no SLO was stated",
        "goodput_rps": "no SLO was stated" if row["slo"] is None else "the run took no time",
        "lateness_ms": "a closed loop has no schedule",
        "ttft_ms": "no request brought a token",
        "tpot_ms": "no request brought a token after its first chunk",
        "itl_ms": "no request brought a second chunk",
        "e2e_ms": "no request finished",
        "tokens_per_chunk": "no request brought a token",
        "output_tokens_per_s": "the run took no time",
        "requests_per_s": "the run took no time",
    }
    return {key: why for key, why in reasons.items() if row[key] is None}
