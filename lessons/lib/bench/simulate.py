"""A server whose waiting times are known by theory, in a time that only jumps: it tests the driver.

Under VirtualLoop `asyncio.sleep` takes no time at all and loop.time() tells the simulated second,
so a run of an hour is over at once and comes out the same on every machine.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, TypeVar

import numpy as np

from kernels.runtime import InputError
from lessons.lib.bench.mixture import Request

T = TypeVar("T")
_MOMENT_S = 1e-6


class _Jump(selectors.DefaultSelector):
    """Instead of waiting for a timeout, moves the clock to its end."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events and timeout is None:
            raise RuntimeError("virtual time stands still: every task waits for another")
        if not events and timeout is not None:
            self.now_s += max(timeout, 0.0)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time. Nothing in it may wait for the real world."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        """The simulated second."""
        return self._jump.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass without giving way, as computation that blocks the loop does."""
        self._jump.now_s += seconds


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time, starting at second 0."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def constant_service(seconds: float) -> Iterator[float]:
    """Every request takes as long: the D of M/D/1."""
    return repeat(seconds)


def exponential_service(mean_s: float, seed: int) -> Iterator[float]:
    """Memoryless service times: the second M of M/M/1."""
    rng = np.random.default_rng(seed)
    while True:
        yield float(rng.exponential(mean_s))


def mean_wait_s(rate: float, mean_s: float, second_moment: float) -> float:
    """Mean time in the queue of a Poisson stream at one server: Pollaczek and Khinchine's formula.

    rate [requests/s] * mean_s must be below 1. second_moment, of the service time in s^2, is
    2 * mean_s ** 2 for exponential service (M/M/1) and mean_s ** 2 for constant service (M/D/1).
    """
    load = rate * mean_s
    if not 0 < load < 1:
        raise InputError(f"a queue at load {load:g} has no steady state; give a load below 1")
    return rate * second_moment / (2 * (1 - load))


class SimulatedServer:
    """Serves `num_servers` requests at a time, in the order of arrival.

    service   seconds of each request, drawn in the order in which service starts
    chunks    tokens of each chunk, two at least. The first leaves when service starts, so TTFT is
              the time in the queue, the last when it ends, the others evenly between.
    stalls    {(request id, chunk): seconds}: the server stands still before that chunk
    """

    def __init__(
        self,
        service: Iterator[float],
        chunks: tuple[int, ...] = (1, 1),
        stalls: Mapping[tuple[str, int], float] | None = None,
        num_servers: int = 1,
    ) -> None:
        if len(chunks) < 2:
            raise InputError("a simulated stream has two chunks or more")
        self._service = service
        self._chunks = chunks
        self._stalls = stalls or {}
        self._free = asyncio.Semaphore(num_servers)

    async def stream(self, request: Request) -> AsyncGenerator[int, None]:
        """Tokens of each chunk at its time."""
        async with self._free:
            gap = next(self._service) / (len(self._chunks) - 1)
            for place, num_tokens in enumerate(self._chunks):
                stall = self._stalls.get((request.request_id, place), 0.0)
                await asyncio.sleep((gap if place else 0.0) + stall)
                yield num_tokens


@dataclass
class _UnderWay:
    """A request in the batch: tokens it still has to bring, and where they go."""

    left: int
    chunks: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    is_prefilled: bool = False


class BatchServer:
    """Steps as an engine does: all requests under way share a step, new prompts among them.

    round_s     (requests that decode) -> seconds of their step
    prefill_s   what each new prompt adds to the step it is computed in
    survival    chance that drafts up to each position are accepted; rounds are independent
    """

    def __init__(
        self,
        round_s: Callable[[int], float],
        prefill_s: float,
        survival: Sequence[float] = (),
        seed: int = 0,
    ) -> None:
        self._round_s, self._prefill_s, self._survival = round_s, prefill_s, survival
        self._rng = np.random.default_rng(seed)
        self._batch: list[_UnderWay] = []
        self._stepping: asyncio.Task[None] | None = None

    async def stream(self, request: Request) -> AsyncGenerator[int, None]:
        """Tokens of each step at its end."""
        mine = _UnderWay(request.max_new_tokens)
        self._batch.append(mine)
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.create_task(self._step())
        left = request.max_new_tokens
        while left:
            left -= (chunk := await mine.chunks.get())
            yield chunk

    async def _step(self) -> None:
        while self._batch:
            await asyncio.sleep(_MOMENT_S)  # who was answered just now sends first
            decoding = [one for one in self._batch if one.is_prefilled]
            new = [one for one in self._batch if not one.is_prefilled]
            taken = self._round_s(len(decoding)) if decoding else 0.0
            await asyncio.sleep(taken + self._prefill_s * len(new))
            for one in decoding:
                accepted = int((self._rng.random() < np.array(self._survival)).sum())
                self._emit(one, 1 + accepted)
            for one in new:
                one.is_prefilled = True
                self._emit(one, 1)

    def _emit(self, one: _UnderWay, count: int) -> None:
        brought = min(one.left, count)
        one.left -= brought
        one.chunks.put_nowait(brought)
        if not one.left:
            self._batch.remove(one)
