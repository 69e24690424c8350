"""What a user would pick instead, under the same driver: transformers with the same weights.

Greedy generation, its prompt lookup and its assisted generation. The last two serve one request at
a time, so peers stand in the queue one by one and are measured with a single user only. Their ratio
to our target-only path compares two pieces of software, not speculation with none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import torch

from kernels.runtime import InputError, release_threads
from lessons.lib.bench.arrivals import ClosedLoop
from lessons.lib.bench.driver import ServerError
from lessons.lib.bench.latency import Chunk
from lessons.lib.bench.mixture import Request
from lessons.lib.bench.peer import Peer, load_assistant, load_peer
from lessons.lib.bench.run_ledger import EngineFacts, Task
from lessons.lib.draft.registry import shipped
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.tokenizer import Tokenizer

LOOKUP_TOKENS = 10  # as in the examples of transformers' documentation
PEERS = ("transformers", "transformers-lookup", "transformers-assisted")
_NO_COUNTERS = "transformers reports no counters"
_UNKNOWN = (
    "acceptance",
    "acceptance_length",
    "phase_shares",
    "round_ms",
    "prefill",
    "verify_efficiency",
    "memory_gb",
    "preemptions",
)

Json = dict[str, Any]


class _Stop(Exception):
    """The request was given up."""


class _Stream:
    """A streamer of transformers that stamps tokens in the thread that generates them."""

    def __init__(self, tell: Callable[[Chunk | None], None], clock: Callable[[], float]) -> None:
        self._tell, self._clock = tell, clock
        self._is_prompt = True
        self.is_left = False

    def put(self, value: torch.Tensor) -> None:
        """The prompt first, then tokens; several at once where drafts were accepted."""
        if self.is_left:
            raise _Stop
        if not self._is_prompt:
            self._tell(Chunk(self._clock(), value.numel()))
        self._is_prompt = False

    def end(self) -> None:
        """Nothing to flush."""


class PeerServer:
    """A MeasuredServer that generates in a worker thread, one request at a time."""

    def __init__(self, peer: Peer, tokenizer: Tokenizer, options: Json, setup: Json) -> None:
        self._peer, self._tokenizer = peer, tokenizer
        self._options, self._setup = options, setup
        self._turn = asyncio.Lock()
        self._worker = ThreadPoolExecutor(1)  # two would wait for each other's OpenMP workers

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Chunks as transformers hands them to a streamer; ServerError for what it raises."""
        loop, arrived = asyncio.get_running_loop(), asyncio.Queue[Chunk | None]()

        def tell(item: Chunk | None) -> None:
            loop.call_soon_threadsafe(arrived.put_nowait, item)

        async with self._turn:
            stream = _Stream(tell, loop.time)
            working = loop.run_in_executor(self._worker, self._generate, request, stream, tell)
            try:
                while (chunk := await arrived.get()) is not None:
                    yield chunk
                await working
            except asyncio.CancelledError:
                raise
            except Exception as error:  # whatever transformers raises counts against it
                raise ServerError(f"{type(error).__name__}: {error}") from error
            finally:
                stream.is_left = True
                await asyncio.wait([working])

    @torch.inference_mode()
    def _generate(
        self, request: Request, stream: _Stream, tell: Callable[[Chunk | None], None]
    ) -> None:
        message = [{"role": "user", "content": request.prompt}]
        ids = torch.tensor([self._tokenizer.apply_chat_template(message)])
        ids = ids.to(self._peer.model.device)
        drawn: Json = {"do_sample": False}
        if request.temperature:
            torch.manual_seed(request.seed % 2**31)
            drawn = {
                "do_sample": True,
                "temperature": request.temperature,
                "top_k": 0,
                "top_p": 1.0,
            }
        try:
            self._peer.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=request.max_new_tokens,
                eos_token_id=sorted(self._tokenizer.eos_token_ids),
                pad_token_id=0,
                streamer=stream,
                **drawn,
                **self._options,
            )
        except _Stop:
            pass
        finally:
            tell(None)

    def close(self) -> None:
        """End the thread; no request may be under way."""
        self._worker.shutdown()

    async def start_counting(self) -> None:
        """Nothing is counted."""

    async def facts(self) -> EngineFacts:
        """How it ran; transformers tells nothing of its rounds."""
        return EngineFacts(self._setup, missing=dict.fromkeys(_UNKNOWN, _NO_COUNTERS))


def check_peers(names: Sequence[str], users: Sequence[int]) -> None:
    """InputError for a name that there is none of, and for loads that none of them can serve."""
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise InputError(f"unknown peer {unknown[0]!r}; choose from {', '.join(PEERS)}")
    if names and 1 not in users:
        raise InputError("peers serve one user at a time: add 1 to --concurrency")


class Peers:
    """The peers of a sweep: those that can be had, and why the others cannot."""

    def __init__(
        self,
        names: Sequence[str],
        path: str | None,
        assistant: Path | None,
        model: LlamaModel,
        tokenizer: Tokenizer,
    ) -> None:
        """names: of PEERS. path: of the model, None for the default one. assistant: for assisted
        generation, as `load_assistant` takes it; the default model's is the shipped drafter."""
        self.not_measured: dict[str, str] = {}
        self._options: dict[str, Json] = {}
        self._tokenizer = tokenizer
        peer, reason = load_peer(path, model.dtype, model.device) if names else (None, None)
        self._peer = peer
        assistant = assistant or (shipped("standalone") if path is None else None)
        for name in names:
            if peer is None:
                self.not_measured[name] = str(reason)
                continue
            options, why = self._options_of(name, peer, assistant, model)
            if why:
                self.not_measured[name] = why
            else:
                self._options[name] = options

    @staticmethod
    def _options_of(
        name: str, peer: Peer, assistant: Path | None, model: LlamaModel
    ) -> tuple[Json, str | None]:
        if name == "transformers":
            return {}, None
        if name == "transformers-lookup":
            return {"prompt_lookup_num_tokens": LOOKUP_TOKENS}, None
        if assistant is None:
            return {}, "no assistant of the same tokenizer was given (--assistant PATH)"
        helper, reason = load_assistant(assistant, peer, model)
        return ({}, reason) if helper is None else ({"assistant_model": helper.model}, None)

    @property
    def names(self) -> list[str]:
        """Those that can be measured."""
        return list(self._options)

    def wants(self, task: Task) -> bool:
        """False for a peer that cannot be had, or not under this load."""
        if task.method not in PEERS:
            return True
        return task.method in self._options and task.arrivals == ClosedLoop(1)

    def open(self, name: str) -> AbstractAsyncContextManager[PeerServer]:
        """As `open_server` of a sweep."""
        peer = self._peer
        assert peer is not None
        setup = {
            "engine": peer.name,
            "is_peer": True,
            "dtype": str(peer.model.dtype).removeprefix("torch."),
            "num_threads": torch.get_num_threads(),
        }

        @asynccontextmanager
        async def opened() -> AsyncIterator[PeerServer]:
            release_threads()  # as before the engine's thread starts
            server = PeerServer(peer, self._tokenizer, self._options[name], setup)
            try:
                yield server
            finally:
                server.close()

        return opened()
