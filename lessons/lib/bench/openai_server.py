"""A production server under the same driver: any that streams the OpenAI chat completions API.

Tokens are counted by the usage figures that vLLM and SGLang put into every chunk on request, since
with speculation a chunk carries several tokens. A server that sends usage only at the end needs a
tokenizer here, and its counts are held against that last figure.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType
from typing import Any, Self

import httpx

from kernels.runtime import InputError
from lessons.lib.bench.driver import ServerError
from lessons.lib.bench.mixture import Request
from lessons.lib.bench.run_ledger import EngineFacts
from lessons.lib.bench.server_counters import Counters, facts_of, grown, parse_counters

COUNT_GAP = 0.02  # relative; a text can be cut into tokens otherwise than it was generated
CONNECT_TIMEOUT_S = 10.0

Json = dict[str, Any]


class OpenAIServer(AbstractAsyncContextManager["OpenAIServer"]):
    """Sends requests to `url`, such as http://localhost:8000, for as long as it is entered.

    count_tokens  of a text; needed only where the server does not report usage by chunk
    setup         what the user says of the server (graphs, dtype, quantisation), for the ledger
    """

    def __init__(
        self,
        url: str,
        model: str,
        count_tokens: Callable[[str], int] | None = None,
        setup: Json | None = None,
        extra_body: Json | None = None,
    ) -> None:
        if not re.match(r"https?://[^/]+", url):
            raise InputError(f"server URL must look like http://host:port, got {url!r}")
        self._model = model
        self._count_tokens = count_tokens
        self._setup = {"engine": "openai", "model": model, **(setup or {})}
        self._extra_body = extra_body or {}
        # No limit on connections: one that had to wait for a free connection would be sent late,
        # and the driver could not see it. The driver has the timeout for whole requests.
        self._client = httpx.AsyncClient(
            base_url=url.rstrip("/").removesuffix("/v1"),
            limits=httpx.Limits(max_connections=None),
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
        )
        self._before: Counters | None = None

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def stream(self, request: Request) -> AsyncGenerator[int, None]:
        """Tokens of each chunk as it arrives; ServerError for whatever goes wrong on the way."""
        text, counted, reported = "", 0, None
        async with aclosing(self._events(self._body(request))) as events:
            async for event in events:
                usage = event.get("usage")
                choices = event.get("choices") or []
                if choices:
                    text += choices[0].get("delta", {}).get("content") or ""
                if usage:
                    reported = int(usage["completion_tokens"])
                now = self._count(text, reported if usage and choices else None)
                if now > counted:
                    yield now - counted
                    counted = now
        self._check_count(counted, reported)

    def _body(self, request: Request) -> Json:
        options = {"include_usage": True, "continuous_usage_stats": True}
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": request.prompt}],
            "max_tokens": request.max_new_tokens,
            "temperature": request.temperature,
            "seed": request.seed % 2**31,
            "stream": True,
            "stream_options": options,
            **self._extra_body,
        }

    async def _events(self, body: Json) -> AsyncGenerator[Json, None]:
        """The data of the stream's events until [DONE]."""
        try:
            async with self._client.stream("POST", "/v1/chat/completions", json=body) as response:
                if response.status_code != httpx.codes.OK:
                    detail = (await response.aread()).decode(errors="replace")[:200]
                    raise ServerError(f"status {response.status_code}: {detail}")
                async for line in response.aiter_lines():
                    if not line.startswith("data:"):
                        continue  # comments that keep the connection alive, blank lines
                    data = line.removeprefix("data:").strip()
                    if data == "[DONE]":
                        return
                    event = json.loads(data)
                    if "error" in event:
                        raise ServerError(f"the server reports {event['error']}")
                    yield event
        except httpx.HTTPError as error:
            raise ServerError(f"{type(error).__name__}: {error}") from error
        except ValueError as error:
            raise ServerError(f"an event that is not JSON: {error}") from error
        raise ServerError("the stream broke off before [DONE]")

    def _count(self, text: str, reported: int | None) -> int:
        """Tokens so far, as the chunk itself says or else as the tokenizer does."""
        if reported is not None:
            return reported
        return self._count_tokens(text) if self._count_tokens else 0

    def _check_count(self, counted: int, reported: int | None) -> None:
        if reported is None:
            if not self._count_tokens:
                raise ServerError("no usage figures and no tokenizer: tokens cannot be counted")
        elif abs(counted - reported) > COUNT_GAP * reported:
            raise ServerError(
                f"counted {counted} tokens in chunks, the server reports {reported}; "
                "give the tokenizer of its model"
            )

    async def start_counting(self) -> None:
        """Remember the server's counters as they are."""
        self._before = await self._counters()

    async def facts(self) -> EngineFacts:
        """What the server's own counters say since start_counting, where it has any.

        They are the whole server's: nobody else may use it meanwhile.
        """
        before, after = self._before, await self._counters()
        if before is None or after is None:
            reason = "the server has no /metrics"
            return EngineFacts(self._setup, missing={"acceptance": reason, "preemptions": reason})
        return facts_of(self._setup, grown(before, after))

    async def _counters(self) -> Counters | None:
        try:
            response = await self._client.get("/metrics")
        except httpx.HTTPError:
            return None
        return parse_counters(response.text) if response.status_code == httpx.codes.OK else None
