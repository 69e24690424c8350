"""Sends requests when their time has come and writes down what comes back.

The driver owns the clock and the log; the server is anything that streams. In an open loop nothing
waits for the server: a request leaves at its scheduled time however many are under way. How late
the driver itself was is part of the log, and a run in which it fell behind is not valid.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from lessons.lib.bench.arrivals import Arrivals, OpenLoop
from lessons.lib.bench.latency import Chunk, RequestLog
from lessons.lib.bench.mixture import Request

LATE_MS = 10.0  # a request sent later than this was sent late
LATE_SHARE = 0.01  # of the requests may be late before the run is worth nothing
LITTLE_GAP = 0.01  # relative difference that bookkeeping may leave in Little's law


class ServerError(RuntimeError):
    """The server refused or broke off a request. It counts against the server; the run goes on."""


class Server(Protocol):
    """Anything that answers a request with a stream."""

    def stream(self, request: Request) -> AsyncGenerator[int | Chunk, None]:
        """Yields the number of tokens of each chunk as it arrives; raises ServerError.

        A server in this process may say by the loop's clock when it emitted the chunk, since the
        way from its thread to the driver's is no part of what is measured.
        """
        ...


@dataclass(frozen=True)
class RunLog:
    """One run. in_flight_s is the number of requests under way, integrated over time, in seconds:
    kept by counting, not from the log, so that the two can be held against each other."""

    requests: tuple[RequestLog, ...]
    in_flight_s: float

    def late_share(self) -> float | None:
        """Share of requests that left more than LATE_MS after their time; None in a closed loop."""
        lateness = [log.lateness_ms for log in self.requests if log.lateness_ms is not None]
        return sum(ms > LATE_MS for ms in lateness) / len(lateness) if lateness else None

    def little_gap(self) -> float:
        """Relative gap in Little's law, L = rate * W, over the whole run.

        Both sides times the duration: the integral of the number under way against the sum of the
        times in the system. A request that was lost, counted twice or timed on another clock shows.
        """
        in_system = sum(log.e2e_ms for log in self.requests) / 1000
        return abs(self.in_flight_s - in_system) / max(in_system, 1e-9)

    def problems(self) -> list[str]:
        """Why the figures of this run must not be used; empty for a valid run."""
        found = []
        late = self.late_share()
        if late is not None and late > LATE_SHARE:
            found.append(f"driver late: {late:.1%} of requests left {LATE_MS:g} ms or more late")
        if self.little_gap() > LITTLE_GAP:
            found.append(
                f"Little's law is off by {self.little_gap():.1%}: requests were miscounted"
            )
        return found


async def drive(
    server: Server,
    requests: Sequence[Request],
    arrivals: Arrivals,
    seed: int,
    timeout_s: float | None = None,
) -> RunLog:
    """Send all requests in order and return when the last stream has ended.

    `seed` draws the schedule of an open loop. A request that takes longer than timeout_s is broken
    off and logged as failed. Warm-up is a run of its own, whose log is thrown away.
    """
    desk = _Desk(server, timeout_s)
    if isinstance(arrivals, OpenLoop):
        times = arrivals.times(len(requests), seed)
        await _open_loop(desk, requests, [float(time) for time in times])
    else:
        await _closed_loop(desk, iter(requests), arrivals.concurrency)
    order = {request.request_id: place for place, request in enumerate(requests)}
    logs = sorted(desk.logs, key=lambda log: order[log.request_id])
    return RunLog(tuple(logs), desk.in_flight_s)


async def _open_loop(desk: _Desk, requests: Sequence[Request], times: Sequence[float]) -> None:
    start = desk.loop.time()
    async with asyncio.TaskGroup() as group:
        for request, offset in zip(requests, times, strict=True):
            scheduled = start + offset
            while (wait := scheduled - desk.loop.time()) > 0:  # a sleep may end a tick early
                await asyncio.sleep(wait)
            group.create_task(desk.send(request, scheduled))


async def _closed_loop(desk: _Desk, requests: Iterator[Request], concurrency: int) -> None:
    async def user() -> None:
        for request in requests:  # all users take from one queue
            await desk.send(request, None)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(user())


class _Desk:
    """Sends single requests; owns the log and the count of requests under way."""

    def __init__(self, server: Server, timeout_s: float | None) -> None:
        self.loop = asyncio.get_running_loop()
        self.logs: list[RequestLog] = []
        self.in_flight_s = 0.0
        self._server = server
        self._timeout_s = timeout_s
        self._in_flight = 0
        self._changed_s = self.loop.time()

    async def send(self, request: Request, scheduled_s: float | None) -> None:
        """One request from its first byte to the end of its stream."""
        sent = self._count(+1)
        chunks: list[Chunk] = []
        error = None
        try:
            async with asyncio.timeout(self._timeout_s):
                async with aclosing(self._server.stream(request)) as stream:
                    async for item in stream:
                        chunk = Chunk(self.loop.time(), item) if isinstance(item, int) else item
                        if chunk.num_tokens:
                            chunks.append(chunk)
        except (ServerError, OSError) as failure:  # a timeout is an OSError
            error = str(failure) or type(failure).__name__
        end = self._count(-1)
        self.logs.append(
            RequestLog(request.request_id, sent, end, tuple(chunks), scheduled_s, error)
        )

    def _count(self, change: int) -> float:
        """Book the time since the last change; returns the time now, in seconds."""
        now = self.loop.time()
        self.in_flight_s += self._in_flight * (now - self._changed_s)
        self._in_flight += change
        self._changed_s = now
        return now
