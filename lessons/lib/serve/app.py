"""The engine behind HTTP: routes, streams, back-pressure. One process, one model, one method.

A request that finds the house full is turned away at once (429); to let it wait here would hide
the queue from whoever balances the load. A client that leaves frees its pages after the step under
way.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kernels.runtime import InputError
from lessons.lib.serve.counters import ServingCounters
from lessons.lib.serve.engine_thread import Emission, EngineStopped, EngineThread, Ticket
from lessons.lib.serve.protocol import Answer, Kind, error_body, read_call, sse

MAX_BODY_BYTES = 4 * 2**20
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ModelServer:
    """Owns the count of open requests. The thread must be entered by the caller, and `counters`
    be one of its observers."""

    def __init__(
        self, thread: EngineThread, counters: ServingCounters, model: str, max_open: int
    ) -> None:
        """max_open: requests that run or wait; more are turned away. model: its name to clients."""
        self._thread = thread
        self._counters = counters
        self._model = model
        self._max_open = max_open
        self.num_open = 0
        self._started = int(time.time())

    def app(self) -> Starlette:
        """The application for an ASGI server."""
        chat, text = partial(self._complete, kind="chat"), partial(self._complete, kind="text")
        return Starlette(
            routes=[
                Route("/v1/chat/completions", chat, methods=["POST"]),
                Route("/v1/completions", text, methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/health", self._health),
                Route("/metrics", self._metrics),
            ]
        )

    async def _models(self, request: Request) -> Response:
        entry = {"id": self._model, "object": "model", "created": self._started}
        return JSONResponse({"object": "list", "data": [entry | {"owned_by": "specdec"}]})

    async def _health(self, request: Request) -> Response:
        return Response(status_code=200 if self._thread.is_alive else 503)

    async def _metrics(self, request: Request) -> Response:
        with suppress(EngineStopped):  # the totals are still true
            await self._thread.call(partial(self._counters.look, num_open=self.num_open))
        return Response(self._counters.page(), media_type=_METRICS_TYPE)

    async def _complete(self, request: Request, kind: Kind) -> Response:
        try:
            call = read_call(await _read_json(request), kind)
        except InputError as error:
            return _error(400, str(error), "invalid_request_error")
        if self.num_open >= self._max_open:
            self._counters.totals["num_rejected"] += 1
            message = f"{self.num_open} requests are open; try again later"
            return _error(429, message, "rate_limit_error", {"Retry-After": "1"})
        self.num_open += 1
        try:
            ticket = await self._thread.submit(call.job)
        except BaseException as error:
            self.num_open -= 1
            if isinstance(error, InputError):
                return _error(400, str(error), "invalid_request_error")
            if isinstance(error, EngineStopped):
                return _error(503, str(error), "server_error")
            raise
        self._counters.totals["num_requests"] += 1
        self._counters.totals["prompt_tokens"] += ticket.num_prompt_tokens
        answer = Answer(call, self._model, ticket.num_prompt_tokens)
        if call.is_stream:
            return _Stream(self._events(ticket, answer), partial(self._close, ticket))
        try:
            return await self._whole(request, ticket, answer)
        finally:
            self._close(ticket)

    def _close(self, ticket: Ticket) -> None:
        """The exchange is over, in whatever way."""
        self.num_open -= 1
        if not ticket.is_over:
            ticket.cancel()
            self._counters.totals["num_cancelled"] += 1

    async def _emissions(self, ticket: Ticket) -> AsyncIterator[Emission]:
        async for emission in ticket:
            self._counters.totals["generation_tokens"] += emission.num_tokens
            yield emission

    async def _events(self, ticket: Ticket, answer: Answer) -> AsyncIterator[bytes]:
        """Server-sent events; a stream that has begun can report an error only inside."""
        num_tokens = 0
        try:
            async for emission in self._emissions(ticket):
                num_tokens += emission.num_tokens
                yield answer.event(emission.text, num_tokens, emission.finish_reason)
        except EngineStopped as error:
            yield sse(error_body(str(error), "server_error"))
            return
        yield answer.last_events(num_tokens)

    async def _whole(self, request: Request, ticket: Ticket, answer: Answer) -> Response:
        """Collects the answer, and gives up when the client leaves."""
        reading = asyncio.create_task(self._collect(ticket))
        leaving = asyncio.create_task(_disconnected(request))
        try:
            await asyncio.wait([reading, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                return Response(status_code=499)  # nobody reads it
            parts = reading.result()
        except EngineStopped as error:
            return _error(503, str(error), "server_error")
        finally:
            reading.cancel()
            leaving.cancel()
        text = "".join(emission.text for emission in parts)
        count = sum(emission.num_tokens for emission in parts)
        return JSONResponse(answer.whole(text, count, parts[-1].finish_reason))

    async def _collect(self, ticket: Ticket) -> list[Emission]:
        return [emission async for emission in self._emissions(ticket)]


class _Stream(StreamingResponse):
    """Closes its exchange even where the client left before the first byte: a generator that was
    never started runs no `finally`."""

    def __init__(self, events: AsyncIterator[bytes], close: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


async def _disconnected(request: Request) -> None:
    """Returns when the client has left. The body must have been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read_json(request: Request) -> object:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise InputError(f"the body is larger than {MAX_BODY_BYTES} bytes")
    try:
        return json.loads(body)
    except ValueError as error:
        raise InputError(f"the body is not valid JSON ({error})") from error


def _error(
    status: int, message: str, kind: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(error_body(message, kind), status, headers)
