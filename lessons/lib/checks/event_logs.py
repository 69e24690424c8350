"""Event logs of serving runs, as plain data: drawn ones, and what their users felt, token by token.

Slow and obvious on purpose: a token gets a time of its own and is looked at alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from lessons.lib.checks.asking import REL_TOL, Rejected, is_close

LATENCIES = ("ttft_ms", "tpot_ms", "itl_ms")
Log = list[dict[str, Any]]
Figures = dict[str, Any]
Mistake = tuple[Callable[[Log], list[float]], str]


def request(
    sent_s: float,
    end_s: float,
    chunks: Sequence[tuple[float, int]],
    scheduled_s: float | None = None,
    failed: bool = False,
) -> dict[str, Any]:
    """One request as `serving_figures` takes it."""
    return {
        "scheduled_s": scheduled_s,
        "sent_s": sent_s,
        "end_s": end_s,
        "chunks": [list(chunk) for chunk in chunks],
        "failed": failed,
    }


def draw_log(rng: random.Random, num_requests: int, is_open: bool) -> Log:
    """Streams of all kinds: the first five are a failed one with tokens, one without tokens, one
    whose tokens come at once, one whose first chunk carries several, and one that fails at
    its time limit, late; the order is drawn."""
    log, now = [], rng.uniform(50, 90)
    for place in range(num_requests):
        now += rng.expovariate(4)
        scheduled = now - rng.uniform(0.05, 0.3) if is_open else None
        num_chunks = {1: 0, 2: 1, 4: 1}.get(place, rng.randint(2, 8))
        time, chunks = now, []
        for number in range(num_chunks):
            time += rng.uniform(0.1, 0.6) if not number else rng.uniform(0.01, 0.12)
            fewest = 2 if place in (2, 3) and not number else 1
            chunks.append((time, rng.randint(fewest, 5)))
        end = time + (rng.uniform(4, 6) if place == 4 else rng.uniform(0.02, 0.2))
        log.append(request(now, end, chunks, scheduled, failed=place in (0, 4)))
    rng.shuffle(log)
    return log


def draw_slo(rng: random.Random, log: Log, num_limits: int = 2) -> dict[str, float]:
    """Limits that some of the requests keep and others break."""
    limits = {
        "ttft_ms": rng.uniform(200, 500),
        "tpot_ms": rng.uniform(12, 35),
        "e2e_ms": rng.uniform(400, 900),
    }
    return {name: limits[name] for name in rng.sample(list(limits), num_limits)}


def _finished(log: Log) -> Log:
    return [one for one in log if not one["failed"]]


def _token_times(one: dict[str, Any]) -> list[float]:
    """When each token came: all tokens of a chunk at once."""
    return [time for time, count in one["chunks"] for _ in range(count)]


def _ttft(one: dict[str, Any]) -> float | None:
    times = _token_times(one)
    return 1000 * (times[0] - one["sent_s"]) if times else None


def _tpot(one: dict[str, Any]) -> float | None:
    """The wait after the first chunk, shared out over the tokens that came in it."""
    times = _token_times(one)
    later = [time for time in times if time > times[0]]
    return 1000 * (max(later) - times[0]) / len(later) if later else None


def _gaps(one: dict[str, Any]) -> list[float]:
    """From each moment at which something came to the next such moment."""
    moments = sorted(set(_token_times(one)))
    return [1000 * (moments[i] - moments[i - 1]) for i in range(1, len(moments))]


def latencies(log: Log, name: str) -> list[float]:
    """`ttft_ms`, `tpot_ms` or `itl_ms` of the requests that finished."""
    if name == "itl_ms":
        return [gap for one in _finished(log) for gap in _gaps(one)]
    felt = [{"ttft_ms": _ttft, "tpot_ms": _tpot}[name](one) for one in _finished(log)]
    return [value for value in felt if value is not None]


def judge_latencies(figures: Figures, log: Log) -> None:
    """Raise Rejected, in words, unless the three lists are those of the log."""
    for name in LATENCIES:
        right = latencies(log, name)
        if _same(figures[name], right):
            continue
        for mistake, reason in MISTAKES[name]:
            if _same(figures[name], mistake(log)):
                raise Rejected(f"{name}: {reason}")
        if len(figures[name]) != len(right):
            raise Rejected(f"{name} has {len(figures[name])} values where {len(right)} are due")
        raise Rejected(f"{name} holds a wrong value")


def _same(got: Sequence[float], right: Sequence[float]) -> bool:
    pairs = zip(got, right, strict=False)
    return len(got) == len(right) and all(is_close(a, b, REL_TOL) for a, b in pairs)


def _per_request(formula: Callable[[dict[str, Any]], float]) -> Callable[[Log], list[float]]:
    """A formula over the finished requests that have a second chunk."""

    def over(log: Log) -> list[float]:
        return [formula(one) for one in _finished(log) if len(one["chunks"]) > 1]

    return over


def _in_seconds(name: str) -> Callable[[Log], list[float]]:
    return lambda log: [value / 1000 for value in latencies(log, name)]


def _all(name: str) -> Callable[[Log], list[float]]:
    """As if no request had failed."""
    return lambda log: latencies([one | {"failed": False} for one in log], name)


def _from_schedule(log: Log) -> list[float]:
    starts = [one | {"sent_s": _arrival(one)} for one in log]
    return latencies(starts, "ttft_ms")


def _spread_out(log: Log) -> list[float]:
    """Each gap shared out over the tokens that ended it."""
    found: list[float] = []
    for one in _finished(log):
        counts = [count for _, count in one["chunks"][1:]]
        for gap, count in zip(_gaps(one), counts, strict=True):
            found += [gap / count] * count
    return found


def _with_ttft(log: Log) -> list[float]:
    found: list[float] = []
    for one in _finished(log):
        first = _ttft(one)
        found += ([] if first is None else [first]) + _gaps(one)
    return found


def _stream_ms(one: dict[str, Any]) -> float:
    return 1000 * float(one["chunks"][-1][0] - one["chunks"][0][0])


def _after_first(one: dict[str, Any]) -> int:
    return sum(count for _, count in one["chunks"][1:])


_FAILED = "a request that failed enters no latency, or giving up early would look fast"
_SECONDS = "in seconds, where milliseconds are asked for"
MISTAKES: dict[str, tuple[Mistake, ...]] = {
    "ttft_ms": (
        (_in_seconds("ttft_ms"), _SECONDS),
        (_all("ttft_ms"), _FAILED),
        (_from_schedule, "it runs from sent_s: a driver that sends late is not the server's fault"),
    ),
    "tpot_ms": (
        (_in_seconds("tpot_ms"), _SECONDS),
        (_all("tpot_ms"), _FAILED),
        (
            _per_request(lambda one: _stream_ms(one) / (len(one["chunks"]) - 1)),
            "it is the mean gap between chunks; divide by the tokens that they carry",
        ),
        (
            _per_request(lambda one: _stream_ms(one) / (len(_token_times(one)) - 1)),
            "further tokens of the first chunk took no further time: count those after it",
        ),
        (
            _per_request(
                lambda one: 1000 * (one["end_s"] - one["chunks"][0][0]) / _after_first(one)
            ),
            "it ends with the last chunk, not with the end of the exchange",
        ),
        (
            _per_request(
                lambda one: 1000 * (one["chunks"][-1][0] - one["sent_s"]) / len(_token_times(one))
            ),
            "the time to the first chunk is no part of it",
        ),
    ),
    "itl_ms": (
        (_in_seconds("itl_ms"), _SECONDS),
        (_all("itl_ms"), _FAILED),
        (_spread_out, "a gap is what a reader waits between two chunks; do not share it out"),
        (_with_ttft, "the wait for the first chunk is TTFT and no gap"),
    ),
}


def judge_goodput(got: float, log: Log, slo: dict[str, float]) -> None:
    """Raise Rejected, in words, unless this is the goodput of the log."""
    right = goodput(log, slo)
    if math.isclose(got, right, rel_tol=REL_TOL, abs_tol=1e-12):
        return
    seconds = duration_s(log)
    tokens = sum(len(_token_times(one)) for one in log if keeps(one, slo))
    kept = sum(keeps(one, slo) for one in log)
    sent = max(one["end_s"] for one in log) - min(one["sent_s"] for one in log)
    mistakes = (
        (kept, "divide by the length of the run"),
        (tokens / seconds, "it counts requests, not tokens"),
        (kept / sent, "the run begins with the first arrival, its scheduled time where it has one"),
        (kept / len(log), "it is a rate per second, not a share"),
        (
            sum(keeps(one | {"failed": False}, slo) for one in log) / seconds,
            "a request that failed is never good",
        ),
        (
            sum(keeps(one, {name: slo[name]}) for one in log for name in slo) / seconds,
            "a request is good once, when it keeps all limits",
        ),
        (
            sum(any(keeps(one, {n: slo[n]}) for n in slo) for one in log) / seconds,
            "one limit kept is not enough: a good request keeps all",
        ),
    )
    for wrong, reason in mistakes:
        if math.isclose(got, wrong, rel_tol=REL_TOL):
            raise Rejected(f"goodput_rps: {reason}")
    words = "more" if got > right else "fewer"
    raise Rejected(f"goodput_rps says {words} good requests a second than there are")


def keeps(one: dict[str, Any], slo: dict[str, float]) -> bool:
    """Is this request good? Limit by limit."""
    if one["failed"]:
        return False
    felt = {
        "ttft_ms": _ttft(one),
        "tpot_ms": _tpot(one),
        "e2e_ms": 1000 * (one["end_s"] - one["sent_s"]),
    }
    for name, limit in slo.items():
        value = felt[name]
        if value is None and name == "ttft_ms":
            return False  # it never answered
        if value is not None and value > limit:
            return False
    return True


def _arrival(one: dict[str, Any]) -> float:
    return float(one["sent_s"] if one["scheduled_s"] is None else one["scheduled_s"])


def duration_s(log: Log) -> float:
    """From the first arrival to the last end, failed requests included."""
    return max(float(one["end_s"]) for one in log) - min(_arrival(one) for one in log)


def goodput(log: Log, slo: dict[str, float]) -> float:
    """Good requests per second."""
    return sum(keeps(one, slo) for one in log) / duration_s(log)
