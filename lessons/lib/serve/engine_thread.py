"""The engine in a thread of its own: requests go in, tokens come back as they are emitted.

Who owns what: the thread alone touches the engine. Everybody else hands it functions to run
between two steps, and hears of tokens on the event loop that asked for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from kernels.runtime import InputError, release_threads
from lessons.lib.config import SamplingParams
from lessons.lib.draft.registry import TARGET_ONLY, make_proposer
from lessons.lib.engine import Engine
from lessons.lib.metrics import StepRecord

T = TypeVar("T")
StepObserver = Callable[[Engine, StepRecord], None]


class EngineStopped(RuntimeError):
    """The thread has ended, by `stop` or by a bug in the engine; the message says which."""


class Emission(NamedTuple):
    """What one step brought one request. `time_s` is when, by the clock of the asking loop;
    `text` is what has become certain; finish_reason is None while there is more to come."""

    time_s: float
    num_tokens: int
    text: str
    finish_reason: str | None


@dataclass(frozen=True)
class Job:
    """A request as somebody outside has it. prompt: a text, or the messages of a chat.

    wants_text False saves decoding where only tokens are counted.
    """

    prompt: str | Sequence[dict[str, str]]
    max_new_tokens: int
    sampling: SamplingParams
    stop: tuple[str, ...] = ()
    wants_text: bool = True


class Ticket:
    """The answer to a job, to be read by the loop that asked; `num_prompt_tokens` of its prompt."""

    def __init__(self, thread: EngineThread, job: Job) -> None:
        self.loop = asyncio.get_running_loop()
        self.job = job
        self.accepted: asyncio.Future[None] = self.loop.create_future()
        self.num_prompt_tokens = 0
        self.is_over = False  # its last emission was read
        self.request_id: str | None = None  # while the engine has it
        self._thread = thread
        self._arrived: asyncio.Queue[Emission | EngineStopped] = asyncio.Queue()
        self._num_tokens = self._num_chars = 0

    async def __aiter__(self) -> AsyncIterator[Emission]:
        """Emissions up to the one with a finish_reason. EngineStopped where none will come."""
        while True:
            item = await self._arrived.get()
            if isinstance(item, EngineStopped):
                raise item
            self.is_over = item.finish_reason is not None
            yield item
            if self.is_over:
                return

    def cancel(self) -> None:
        """Stop it and free its pages after the step under way; does nothing when it is over."""
        self._thread.post(lambda: self._thread.abort(self))

    # --- called by the thread of the engine ------------------------------------------------------

    def tell(self, function: Callable[[], object]) -> None:
        """Run something on the asking loop, unless that has gone."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function)

    def accept(self, error: Exception | None) -> None:
        """Answer `submit`."""

        def answer() -> None:
            if self.accepted.done():  # who asked has left
                self.cancel()
            elif error:
                self.accepted.set_exception(error)
            else:
                self.accepted.set_result(None)

        self.tell(answer)

    def emit(self, engine: Engine) -> bool:
        """Pass on what is new; whether the request is over."""
        assert self.request_id is not None
        request = engine.find(self.request_id)
        count = len(request.token_ids) - request.prompt_len
        text = request.text() if self.job.wants_text else ""
        if count > self._num_tokens or request.finish_reason:
            now, new = self.loop.time(), count - self._num_tokens
            emission = Emission(now, new, text[self._num_chars :], request.finish_reason)
            self._num_tokens, self._num_chars = count, len(text)
            self.tell(lambda: self._arrived.put_nowait(emission))
        return request.finish_reason is not None

    def fail(self, error: EngineStopped) -> None:
        """No more will come."""
        self.tell(lambda: self._arrived.put_nowait(error))


class EngineThread:
    """Runs an engine while entered. All requests use one method at one depth."""

    def __init__(
        self,
        engine: Engine,
        method: str = TARGET_ONLY,
        depth: int = 0,
        observers: Sequence[StepObserver] = (),
    ) -> None:
        """observers hear of every step, in the engine's thread; they must be quick."""
        self.engine = engine
        self.method = method
        self.depth = depth
        self._observers = observers
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._tickets: dict[str, Ticket] = {}
        self._stopped: EngineStopped | None = None
        self._thread = Thread(target=self._run, name="engine", daemon=True)

    def __enter__(self) -> Self:
        release_threads()  # from here on another thread computes
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether it takes requests."""
        return self._stopped is None and self._thread.is_alive()

    def stop(self) -> None:
        """End after the step under way; requests that are not over hear of it."""
        self.post(self._stop)

    def post(self, command: Callable[[], None]) -> None:
        """Run something between two steps; after the end at once. It must not raise."""
        self._commands.put(command)
        if self._stopped:
            self._drain()

    async def submit(self, job: Job) -> Ticket:
        """Hand a job in. InputError for what the engine cannot run, EngineStopped if it has ended.

        Must hold: whoever stops reading before the end calls `cancel`.
        """
        ticket = Ticket(self, job)
        self.post(lambda: self._add(ticket))
        await ticket.accepted
        return ticket

    async def call(self, function: Callable[[Engine], T]) -> T:
        """Run a function of the engine between two steps and return what it gives."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                if self._stopped:
                    raise self._stopped
                result = function(self.engine)
            except Exception as error:
                loop.call_soon_threadsafe(answer.set_exception, error)
            else:
                loop.call_soon_threadsafe(answer.set_result, result)

        self.post(run)
        return await answer

    # --- in the thread of the engine -------------------------------------------------------------

    def _run(self) -> None:
        try:
            while True:
                while not (self._commands.empty() and self.engine.has_work):
                    self._commands.get()()  # waits where there is nothing else to do
                    if self._stopped:
                        return
                record = self.engine.step()
                for observer in self._observers:
                    observer(self.engine, record)
                self._publish(record)
        except Exception as error:
            self._end(EngineStopped(f"the engine broke down: {error!r}"))
            raise
        finally:
            self._drain()

    def _drain(self) -> None:
        """What was posted around the end still gets its answer; two may drain at a time."""
        with suppress(Empty):
            while True:
                self._commands.get_nowait()()

    def _add(self, ticket: Ticket) -> None:
        engine, job = self.engine, ticket.job
        if self._stopped:
            ticket.accept(self._stopped)
            return
        try:
            if isinstance(job.prompt, str):
                prompt_ids = engine.tokenizer.encode(job.prompt)
            else:
                prompt_ids = engine.tokenizer.apply_chat_template(list(job.prompt))
            proposer = make_proposer(self.method, engine.model, job.sampling)
            ticket.request_id = engine.add_request(
                prompt_ids, job.max_new_tokens, job.sampling, proposer, self.depth, job.stop
            )
        except InputError as error:
            ticket.accept(error)
            return
        ticket.num_prompt_tokens = len(prompt_ids)
        self._tickets[ticket.request_id] = ticket
        ticket.accept(None)

    def _publish(self, record: StepRecord) -> None:
        for name in (*record.rounds, *record.prefilled):
            ticket = self._tickets[name]
            if ticket.emit(self.engine):
                self._forget(ticket)
                self.engine.take_result(name)

    def abort(self, ticket: Ticket) -> None:
        """For `Ticket.cancel`."""
        if ticket.request_id is not None:
            self.engine.abort(ticket.request_id)
            self._forget(ticket)

    def _stop(self) -> None:
        self._end(EngineStopped("the engine was stopped"))
        for ticket in list(self._tickets.values()):
            self.abort(ticket)

    def _forget(self, ticket: Ticket) -> None:
        assert ticket.request_id is not None
        del self._tickets[ticket.request_id]
        ticket.request_id = None

    def _end(self, reason: EngineStopped) -> None:
        self._stopped = reason
        for ticket in list(self._tickets.values()):  # from now on whoever posts may take one out
            ticket.fail(reason)
