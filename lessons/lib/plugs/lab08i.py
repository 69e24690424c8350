"""Lab 8I: runs whose event logs and ledgers a student's figures are taken from.

One run is real, our engine under the driver. The ledgers are simulated in virtual time on a machine
whose costs are made up and written here, so that a sweep over loads takes seconds and comes out
the same everywhere.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from lessons.lib.bench.arrivals import ClosedLoop
from lessons.lib.bench.driver import RunLog, ServerError, drive
from lessons.lib.bench.engine_server import engine_opener
from lessons.lib.bench.latency import RequestLog, Slo
from lessons.lib.bench.mixture import RECIPES, Request, draw_requests
from lessons.lib.bench.run import BASELINE, MethodSpec
from lessons.lib.bench.run_ledger import EngineFacts, Task, load_name, make_point, paired_ratios
from lessons.lib.bench.simulate import run_virtual
from lessons.lib.bench.workload import load_prompts
from lessons.lib.engine import Engine
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.tokenizer import Tokenizer

LOADS, NUM_BLOCKS, NUM_TOKENS = (1, 4, 16, 32), 5, 24
NUM_ENGINE_TOKENS = 12
METHOD = "draft-4"
SLO = Slo(ttft_ms=60, tpot_ms=8)
MISLEADING = ("A", "B", "C")

Json = dict[str, Any]


def _aside(run: Callable[[], RunLog]) -> RunLog:
    """In a thread of its own: a notebook's thread has an event loop already."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(run).result()


def plain_log(logs: Sequence[RequestLog]) -> list[Json]:
    """An event log as `serving_figures` takes it."""
    return [
        {
            "scheduled_s": log.scheduled_s,
            "sent_s": log.sent_s,
            "end_s": log.end_s,
            "chunks": [list(chunk) for chunk in log.chunks],
            "failed": log.error is not None,
        }
        for log in logs
    ]


def plain_points(points: Sequence[Json]) -> list[Json]:
    """The runs of a serving ledger as `find_faults` takes them."""
    return [
        {
            "method": point["method"],
            "load": load_name(point["arrivals"]),
            "block": f"{point['seed']}/{point['block']}",
            "setup": dict(point["setup"]),
            "fingerprint": point["workload"]["fingerprint"],
            "num_requests": point["workload"]["num_requests"],
            "num_distinct": point["workload"]["num_distinct"],
            "num_failed": point["figures"]["num_failed"],
        }
        for point in points
    ]


def engine_run(
    model: LlamaModel, tokenizer: Tokenizer, spec: MethodSpec, num_requests: int = 2
) -> RunLog:
    """Our engine answers short copy prompts for two users, after a warm-up that is thrown away."""
    copying = load_prompts("heldout", kinds=("copy",))
    prompts = sorted(copying, key=lambda prompt: len(prompt.text))[: num_requests + 1]
    requests = [
        Request(prompt.name, prompt.kind, prompt.text, NUM_ENGINE_TOKENS, temperature=0.0, seed=0)
        for prompt in prompts
    ]
    engine = Engine(model, tokenizer, shares_prefixes=False)
    open_server = engine_opener(engine, "default", [spec])

    async def work() -> RunLog:
        async with open_server(spec.name) as server:
            await drive(server, [replace(requests[0], max_new_tokens=2)], ClosedLoop(1), 0)
            return await drive(server, requests[1:], ClosedLoop(2), 0)

    return _aside(lambda: asyncio.run(work()))


@dataclass(frozen=True)
class MadeUpMachine:
    """Costs of a step in milliseconds, and how well drafts are accepted; none was measured.

    A step reads the weights once, or computes its rows, whichever takes longer, and `launch_ms` on
    top. A method drafts `depth` tokens, each accepted with `acceptance` while all before it were.
    """

    weights_ms: float = 5.0
    row_ms: float = 0.1
    draft_ms: float = 1.0
    launch_ms: float = 0.0
    acceptance: float = 0.7
    depth: int = 4
    gives_up_above: int | None = None  # requests under way at which the next one is refused

    def step_ms(self, num_requests: int, depth: int) -> float:
        """One step of a batch that verifies `depth` drafts each."""
        rows = num_requests * (1 + depth)
        draft = self.draft_ms if depth else 0.0
        return max(self.weights_ms, self.row_ms * rows) + draft + self.launch_ms


class SteppingServer:
    """A server on a made-up machine: each request steps at the pace of all that are under way."""

    def __init__(self, machine: MadeUpMachine, depth: int, seed: int) -> None:
        self._machine = machine
        self._depth = depth
        self._seed = seed
        self._under_way = 0

    async def stream(self, request: Request) -> AsyncGenerator[int, None]:
        """Tokens of each step; ServerError where the machine gives up."""
        limit = self._machine.gives_up_above
        if limit is not None and self._under_way >= limit:
            raise ServerError("too many requests")
        rng = random.Random(f"{self._seed}/{request.request_id}")
        self._under_way += 1
        try:
            await self._step(0)  # prefill
            yield 1
            left = request.max_new_tokens - 1
            while left:
                await self._step(self._depth)
                accepted = 0
                while accepted < self._depth and rng.random() < self._machine.acceptance:
                    accepted += 1
                yield min(left, 1 + accepted)
                left -= min(left, 1 + accepted)
        finally:
            self._under_way -= 1

    async def _step(self, depth: int) -> None:
        await asyncio.sleep(self._machine.step_ms(self._under_way, depth) / 1000)


@dataclass(frozen=True)
class Simulated:
    """A ledger's points, and the event log of each, in the same order."""

    points: list[Json]
    logs: list[tuple[RequestLog, ...]]

    def ratios(self, load: int, metric: str = "output_tokens_per_s") -> list[float]:
        """METHOD against the baseline in every block of a load."""
        here = [p for p in self.points if p["arrivals"]["concurrency"] == load]
        paired = paired_ratios(here, METHOD, metric)
        return [ratio for ratio in paired if ratio is not None]

    def log(self, method: str, load: int, block: int) -> list[Json]:
        """The event log of one run, as `serving_figures` takes it."""
        for point, logs in zip(self.points, self.logs, strict=True):
            key = point["method"], point["arrivals"]["concurrency"], point["block"]
            if key == (method, load, block):
                return plain_log(logs)
        raise KeyError((method, load, block))


def simulate(
    machine: MadeUpMachine = MadeUpMachine(),
    baseline: MadeUpMachine | None = None,
    loads: Sequence[int] = LOADS,
    num_blocks: int = NUM_BLOCKS,
    seed: int = 0,
    repeats: int = 1,
) -> Simulated:
    """A sweep of both methods. baseline: the machine of the baseline, if it is another.

    repeats: how often each prompt is sent.
    """
    points, logs = [], []
    for load in loads:
        for block in range(num_blocks):
            order = (BASELINE, METHOD) if block % 2 else (METHOD, BASELINE)
            for method in order:
                is_base = method == BASELINE
                draw = seed * 1000 + block
                point, run = _one_run(
                    Task(method, ClosedLoop(load), seed, block),
                    (baseline or machine) if is_base else machine,
                    draw,
                    repeats,
                )
                points.append(point)
                logs.append(run.requests)
    return Simulated(points, logs)


def _one_run(task: Task, machine: MadeUpMachine, draw: int, repeats: int) -> tuple[Json, RunLog]:
    load = task.arrivals
    assert isinstance(load, ClosedLoop)
    recipe, count = RECIPES["balanced"], max(10, 2 * load.concurrency)
    drawn = draw_requests(recipe, load_prompts("sweep"), count, draw)
    requests = [
        replace(drawn[place // repeats], request_id=f"{place:03d}", max_new_tokens=NUM_TOKENS)
        for place in range(count)
    ]
    depth = 0 if task.method == BASELINE else machine.depth
    server = SteppingServer(machine, depth, draw)
    run = _aside(lambda: run_virtual(drive(server, requests, load, draw)))
    setup = {"engine": "simulated", "graphs": machine.launch_ms == 0}
    facts = EngineFacts(setup=setup)
    return make_point(task, recipe, "sweep", requests, run, facts, SLO, 0), run


def misleading(name: str) -> Simulated:
    """Ledger A, B or C: small sweeps, each of which flatters its method in a way of its own."""
    fair = MadeUpMachine()
    if name == "A":
        return simulate(fair, baseline=replace(fair, launch_ms=4.0), loads=(1, 4), seed=1)
    if name == "B":
        return simulate(replace(fair, acceptance=0.93), loads=(1, 4), seed=2, repeats=2)
    if name == "C":
        return simulate(replace(fair, gives_up_above=12), baseline=fair, loads=(4, 16), seed=3)
    raise KeyError(name)
