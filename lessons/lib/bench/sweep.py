"""Measures methods over loads, seeds and blocks into a ledger; goes on where it was killed.

What fixes the size of a sweep, as `make bench` sets it: a ratio needs MIN_BLOCKS blocks for an
interval and three seeds, so two blocks a seed, six in all. A block needs every kind of request more
than once, or its mixture is luck: ten requests, two of each of five kinds. More only where the load
asks for it (`Workload`). A point then takes requests / throughput, in an open loop requests / rate,
and the sweep methods x blocks x the sum of that over its loads; rates far below the knee cost the
most time and say the least.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from tqdm import tqdm

from kernels.runtime import InputError
from lessons.lib.bench.arrivals import Arrivals, ClosedLoop
from lessons.lib.bench.driver import Server, drive
from lessons.lib.bench.latency import Slo
from lessons.lib.bench.ledger import check_same_conditions, write_ledger
from lessons.lib.bench.mixture import Recipe, draw_requests
from lessons.lib.bench.run import BASELINE
from lessons.lib.bench.run_ledger import (
    METRICS,
    EngineFacts,
    Task,
    append_point,
    compare,
    length_parity,
    load_ledger,
    make_point,
    point_key,
)
from lessons.lib.bench.time_left import TimeLeft
from lessons.lib.bench.workload import Prompt

WARM_UP_USERS = 2
MAX_DISCARDED = 3  # runs of a point; then it stays as it is, marked as not valid

_BLOCK_SEEDS = 1000
_BAR = "{desc}: {n}/{total} points, {elapsed} so far{postfix}"

Json = dict[str, Any]


class MeasuredServer(Server, Protocol):
    """A server that can tell what it did."""

    async def start_counting(self) -> None:
        """Forget what was counted so far: the warm-up is over."""
        ...

    async def facts(self) -> EngineFacts:
        """What was counted since."""
        ...


OpenServer = Callable[[str], AbstractAsyncContextManager[MeasuredServer]]


@dataclass(frozen=True)
class Workload:
    """The requests of every run. Warm-up prompts must not be among the measured ones, or a prefix
    cache and a drafter that copies would know them.

    num_requests   of a point, at least
    per_user       in a closed loop at least so many a user: with one, the batch runs empty from the
                   first answer on, and a label of 16 users stands for half as many
    open_s         in an open loop at least as many as arrive in so many seconds: in less, a rate
                   beyond what the server can do has no time to build a queue and looks served
    """

    recipe: Recipe
    split: str
    prompts: Sequence[Prompt]
    warm_up_prompts: Sequence[Prompt]
    num_requests: int
    num_warm_up: int
    per_user: float = 0.0
    open_s: float = 0.0

    def num_at(self, load: Arrivals) -> int:
        """Requests of a point under this load."""
        if isinstance(load, ClosedLoop):
            return max(self.num_requests, math.ceil(self.per_user * load.concurrency))
        return max(self.num_requests, math.ceil(self.open_s * load.rate))

    def __post_init__(self) -> None:
        shared = {p.text for p in self.prompts} & {p.text for p in self.warm_up_prompts}
        if shared:
            raise InputError(f"{len(shared)} prompts are measured and used to warm up as well")
        if self.num_warm_up < 1:
            raise InputError("at least one request has to warm the server up")


def plan(
    methods: Sequence[str], loads: Sequence[Arrivals], seeds: Sequence[int], num_blocks: int
) -> list[Task]:
    """Target-only and all methods at every load, seed and block; who goes first rotates by block,
    so that a machine that tires or warms up favours nobody. Block by block over all loads: what is
    left takes as long as the first block did, and a sweep that is stopped has seen every load."""
    if not (loads and seeds) or num_blocks < 1:
        raise InputError("nothing to measure: give a rate or a concurrency, a seed and a block")
    everyone = [BASELINE, *(method for method in methods if method != BASELINE)]
    tasks: list[Task] = []
    for turn, (seed, block) in enumerate((s, b) for s in seeds for b in range(num_blocks)):
        first = turn % len(everyone)
        order = [*everyone[first:], *everyone[:first]]
        tasks.extend(Task(method, load, seed, block) for load in loads for method in order)
    return tasks


def draw_seed(seed: int, block: int) -> int:
    """Draws the requests and the schedule of a block: no two blocks share them."""
    return seed * _BLOCK_SEEDS + block


def run_sweep(
    tasks: Sequence[Task],
    open_server: OpenServer,
    workload: Workload,
    slo: Slo | None,
    ledger: Json,
    path: Path,
    timeout_s: float | None = None,
    progress: bool = True,
    run: Callable[[Coroutine[Any, Any, Json]], Json] = asyncio.run,
    clock: Callable[[], float] = perf_counter,
) -> Json:
    """Measure every task that the ledger lacks, write after each, then compare. Returns the ledger.

    A run that is not valid (its driver was late, say) is thrown away and measured again, and its
    problems are kept with the point.

    open_server(method) makes a fresh server, closed after the point. `run` drives the event loop,
    `clock` [s] tells what a point took, warm-up included (`wall_s`).
    """
    done = {point_key(point) for point in ledger["points"]}
    waiting = [task for task in tasks if task.key not in done]
    left = TimeLeft(ledger["points"])
    bar = tqdm(waiting, disable=not progress, desc="measuring", bar_format=_BAR)
    for number, task in enumerate(bar):
        bar.set_postfix_str(left.describe(waiting[number:]))
        started = clock()
        discarded: list[list[str]] = []
        while True:
            point = run(_measure(task, open_server, workload, slo, timeout_s))
            problems = point["validity"]["problems"]
            if not problems or len(discarded) == MAX_DISCARDED:
                break
            discarded.append(problems)
        point["validity"]["discarded"] = discarded
        point["wall_s"] = clock() - started
        left.note(point)
        append_point(ledger, point, path)
    ledger["comparisons"] = [row for metric in METRICS for row in compare(ledger["points"], metric)]
    ledger["length_parity"] = length_parity(ledger["points"])
    write_ledger(ledger, path)
    return ledger


def resume_or(fresh: Json, path: Path) -> Json:
    """The ledger at `path`, to be gone on with; `fresh` where there is none. InputError when it was
    made under other conditions."""
    if not path.exists():
        return fresh
    found = load_ledger(path)
    check_same_conditions(found, fresh, path)
    return found


async def _measure(
    task: Task,
    open_server: OpenServer,
    workload: Workload,
    slo: Slo | None,
    timeout_s: float | None,
) -> Json:
    draw = draw_seed(task.seed, task.block)
    recipe = workload.recipe
    requests = draw_requests(recipe, workload.prompts, workload.num_at(task.arrivals), draw)
    warm_up = draw_requests(recipe, workload.warm_up_prompts, workload.num_warm_up, draw)
    async with open_server(task.method) as server:
        await drive(server, warm_up, ClosedLoop(WARM_UP_USERS), draw, timeout_s)
        await server.start_counting()
        log = await drive(server, requests, task.arrivals, draw, timeout_s)
        facts = await server.facts()
    return make_point(task, recipe, workload.split, requests, log, facts, slo, workload.num_warm_up)
