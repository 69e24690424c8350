"""Our engine under the driver, in this process: stamps at emission, and facts from every step."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from kernels.runtime import InputError
from lessons.lib import metrics
from lessons.lib.bench.driver import ServerError
from lessons.lib.bench.latency import Chunk
from lessons.lib.bench.methods import pacing_of
from lessons.lib.bench.mixture import Request
from lessons.lib.bench.run import GB, MethodSpec
from lessons.lib.bench.run_ledger import EngineFacts
from lessons.lib.bench.step_facts import prefill_means, round_means
from lessons.lib.config import SamplingParams
from lessons.lib.draft.registry import make_proposer
from lessons.lib.engine import Engine
from lessons.lib.metrics import StepRecord
from lessons.lib.model.llama import LlamaModel
from lessons.lib.serve.engine_thread import EngineStopped, EngineThread, Job

_SAMPLE_EVERY = 8  # steps between two looks at what the drafters hold

Json = dict[str, Any]


@dataclass
class StepLog:
    """Every step since the warm-up, and the most that the drafters' own state held."""

    weight_bytes: int  # of one drafter; all requests share them
    steps: list[StepRecord] = field(default_factory=list)
    draft_state_bytes: int = 0

    def __call__(self, engine: Engine, record: StepRecord) -> None:
        if len(self.steps) % _SAMPLE_EVERY == 0:
            proposers = [r.proposer for r in engine.running if r.proposer is not None]
            held = sum(max(p.memory_bytes - self.weight_bytes, 0) for p in proposers)
            self.draft_state_bytes = max(self.draft_state_bytes, held)
        self.steps.append(record)

    def clear(self) -> None:
        """The warm-up is over."""
        self.steps.clear()
        self.draft_state_bytes = 0


class EngineServer:
    """A MeasuredServer over an engine that steps in its own thread."""

    def __init__(self, thread: EngineThread, log: StepLog, setup: Json) -> None:
        self._thread = thread
        self._log = log
        self._setup = setup

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Tokens of each round, stamped in the engine's thread."""
        sampling = SamplingParams(request.temperature, seed=request.seed)
        message = {"role": "user", "content": request.prompt}
        job = Job([message], request.max_new_tokens, sampling, wants_text=False)
        try:
            ticket = await self._thread.submit(job)
        except (InputError, EngineStopped) as error:
            raise ServerError(str(error)) from error
        try:
            async for emission in ticket:
                yield Chunk(emission.time_s, emission.num_tokens)
        except EngineStopped as error:
            raise ServerError(str(error)) from error
        finally:
            ticket.cancel()

    async def start_counting(self) -> None:
        """Forget the warm-up."""

        def forget(engine: Engine) -> None:
            self._log.clear()
            if engine.model.device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(engine.model.device)

        await self._thread.call(forget)

    async def facts(self) -> EngineFacts:
        """What the engine did since."""
        return await self._thread.call(lambda engine: facts_of(engine, self._log, self._setup))


def facts_of(engine: Engine, log: StepLog, setup: Json) -> EngineFacts:
    """The facts of a run from its steps."""
    steps = log.steps
    rounds = [record for step in steps for record in step.rounds.values()]
    memory, missing = _memory(engine, log)
    if not rounds:
        reason = "every answer ended with its first token"
        missing |= dict.fromkeys(("acceptance", "acceptance_length", "verify_efficiency"), reason)
    return EngineFacts(
        setup=setup,
        acceptance=asdict(metrics.acceptance(rounds)) if rounds else None,
        acceptance_length=metrics.acceptance_length(rounds),
        phase_shares=metrics.phase_shares(steps),
        round_ms=round_means(steps),
        prefill=prefill_means(steps),
        verify_efficiency=metrics.verify_efficiency(rounds),
        memory_gb=memory,
        preemptions=sum(len(step.preempted) for step in steps),
        missing=missing,
    )


def _memory(engine: Engine, log: StepLog) -> tuple[dict[str, float | None], dict[str, str]]:
    """GB by part; kv_cache is the most in use at a time, `peak` the allocator's, of everything."""
    device, graphs = engine.model.device, engine.graph_bytes
    is_cuda = device.type == "cuda"
    peak = torch.cuda.max_memory_allocated(device) if is_cuda else None
    memory = {
        "weights": weight_bytes(engine.model) / GB,
        "draft_weights": log.weight_bytes / GB,
        "draft_kv": log.draft_state_bytes / GB,
        "kv_cache": metrics.peak_pages(log.steps)[1] / GB,
        "graphs": None if graphs is None else graphs / GB,
        "peak": None if peak is None else peak / GB,
    }
    missing = {
        "memory_gb.graphs": "no CUDA device, so no graphs",
        "memory_gb.peak": "the allocator of the CPU keeps no peak",
    }
    return memory, {key: why for key, why in missing.items() if memory[key.split(".")[1]] is None}


def weight_bytes(model: LlamaModel) -> int:
    """Of the target, a tied head counted once."""
    parts = [model.embedding, model.final_norm]
    parts += [] if model.lm_head is model.embedding else [model.lm_head]
    for layer in model.layers:
        parts += [part for part in vars(layer).values() if part is not None]
    return sum(part.nbytes for part in parts)


def engine_setup(engine: Engine, model_name: str) -> Json:
    """What must be the same for a method and its baseline."""
    return {
        "engine": "lessons.lib",
        "model": model_name,
        "dtype": str(engine.model.dtype).removeprefix("torch."),
        "device": engine.model.device.type,
        "num_threads": torch.get_num_threads(),
        **engine.settings,
    }


def engine_opener(
    engine: Engine, model_name: str, specs: Sequence[MethodSpec], profile: Json | None = None
) -> Callable[[str], AbstractAsyncContextManager[EngineServer]]:
    """`open_server` of a sweep: one engine for all points, so that every method meets the same
    graphs and pages; controllers and planners are fresh at each. The engine must not share
    prefixes, or who comes second finds prompts computed. profile: step times, for planners."""
    if engine.settings["shares_prefixes"]:
        raise InputError("methods take turns on the same prompts: give shares_prefixes=False")
    by_name = {spec.name: spec for spec in specs}
    setup = engine_setup(engine, model_name)

    @asynccontextmanager
    async def open_server(name: str) -> AsyncIterator[EngineServer]:
        spec = by_name[name]
        proposer = make_proposer(spec.method, engine.model)
        log = StepLog(proposer.memory_bytes if proposer is not None else 0)
        engine.pacing = pacing_of(spec, profile)
        with EngineThread(engine, spec.method, spec.depth, [log]) as thread:
            yield EngineServer(thread, log, dict(setup))

    return open_server
