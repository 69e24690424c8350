"""A sweep interleaves its methods, warms up apart, and goes on after a kill without repeating."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest
import serving_kit

from kernels.runtime import InputError
from lessons.lib.bench import run_ledger
from lessons.lib.bench.arrivals import ClosedLoop, OpenLoop
from lessons.lib.bench.audit import audit
from lessons.lib.bench.mixture import RECIPES
from lessons.lib.bench.run_ledger import point_key
from lessons.lib.bench.simulate import SimulatedServer, constant_service, run_virtual
from lessons.lib.bench.sweep import Workload, plan, resume_or, run_sweep
from lessons.lib.bench.time_left import TimeLeft
from lessons.lib.bench.workload import load_prompts

LOADS = (ClosedLoop(1), ClosedLoop(2), OpenLoop(4.0))
MAIN, HELDOUT = load_prompts("main"), load_prompts("heldout")
WORKLOAD = Workload(RECIPES["balanced"], "heldout", HELDOUT, MAIN, 10, 2)


class Server(SimulatedServer):
    """Counts what it served, and breaks down when told to."""

    def __init__(self, method):
        super().__init__(
            constant_service(serving_kit.SERVICE_S[method]), serving_kit.CHUNKS[method]
        )
        self.method, self.served = method, []

    async def stream(self, request):
        self.served.append(request.prompt)
        async for tokens in super().stream(request):
            yield tokens

    async def start_counting(self):
        self.warm_up, self.served = self.served, []

    async def facts(self):
        return serving_kit.facts(self.method)


class Machine:
    """Opens servers, and is killed when it opens number `dies_at`."""

    def __init__(self, dies_at=None):
        self.servers, self.dies_at = [], dies_at

    @asynccontextmanager
    async def open(self, method):
        if len(self.servers) == self.dies_at:
            raise KeyboardInterrupt
        self.servers.append(Server(method))
        yield self.servers[-1]


def fresh():
    ledger = run_ledger.new_ledger("cpu", "bench", {"seeds": [0, 1, 2]})
    return ledger | {"commit": "0" * 40}


def sweep(path, machine, tasks=None):
    tasks = plan(["ngram-4"], LOADS, seeds=(0, 1, 2), num_blocks=2) if tasks is None else tasks
    return run_sweep(
        tasks, machine.open, WORKLOAD, serving_kit.SLO, resume_or(fresh(), path), path,
        progress=False, run=run_virtual, clock=lambda: 0.0,
    )  # fmt: skip


def test_plan_rotates_who_goes_first():
    tasks = plan(["a", "b"], [ClosedLoop(1)], seeds=[7], num_blocks=3)
    assert [t.method for t in tasks] == [
        "baseline",
        "a",
        "b",
        "a",
        "b",
        "baseline",
        "b",
        "baseline",
        "a",
    ]
    assert len({task.key for task in tasks}) == 9
    assert [t.method for t in plan(["baseline"], [ClosedLoop(1)], [0], 1)] == ["baseline"]


def test_every_load_comes_before_the_next_block():
    tasks = plan(["a"], LOADS, seeds=[0, 1], num_blocks=2)
    blocks = [(task.seed, task.block) for task in tasks]
    assert blocks == sorted(blocks) and len(set(blocks)) == 4
    first = [(task.arrivals, task.method) for task in tasks[: 2 * len(LOADS)]]
    assert first == [(load, method) for load in LOADS for method in ("baseline", "a")]


@pytest.mark.parametrize(
    ("load", "count"),
    [(ClosedLoop(1), 10), (ClosedLoop(4), 10), (ClosedLoop(5), 13), (ClosedLoop(16), 40),
     (OpenLoop(1.5), 10), (OpenLoop(4.0), 20)],
)  # fmt: skip
def test_a_point_is_as_large_as_its_load_asks_for(load, count):
    sized = Workload(RECIPES["balanced"], "heldout", HELDOUT, MAIN, 10, 2, per_user=2.5, open_s=5.0)
    assert sized.num_at(load) == count and WORKLOAD.num_at(load) == 10


def test_time_left_goes_by_load_and_method(tmp_path):
    loads = [ClosedLoop(1), ClosedLoop(2)]
    tasks = plan(["ngram-4"], loads, seeds=(0,), num_blocks=2)
    seconds = {("baseline", 1): 10.0, ("ngram-4", 1): 6.0, ("baseline", 2): 200.0}
    left = TimeLeft([])
    assert left.seconds(tasks) is None and "unknown" in left.describe(tasks)
    for task in tasks[:2]:
        left.note(done(task, seconds))
    assert left.seconds(tasks[2:]) == 8.0 + 8.0 + 10 + 6 + 8 + 8
    assert left.describe(tasks[2:]) == "perhaps 48 s left, some loads are to come"
    left.note(done(tasks[2], seconds))
    assert left.seconds(tasks[3:]) == 200 + 10 + 6 + 200 + 200
    assert left.describe(tasks[3:]) == "about 10 min left"


def done(task, seconds):
    method, _, seed, block = task.key
    point = {"method": method, "arrivals": run_ledger.describe_arrivals(task.arrivals)}
    took = {"wall_s": seconds[method, task.arrivals.concurrency]}
    return point | {"seed": seed, "block": block} | took


def test_a_sweep_that_goes_on_knows_what_its_points_took(tmp_path):
    ticks = iter(range(0, 10_000, 3))
    ledger = run_sweep(
        plan(["ngram-4"], LOADS[:1], (0,), 1), Machine().open, WORKLOAD, serving_kit.SLO, fresh(),
        tmp_path / "l.json", progress=False, run=run_virtual, clock=lambda: next(ticks),
    )  # fmt: skip
    assert [point["wall_s"] for point in ledger["points"]] == [3, 3]
    again = run_ledger.load_ledger(tmp_path / "l.json")
    assert TimeLeft(again["points"]).seconds(plan([], LOADS[:1], (1, 2), 1)) == 6


def test_a_whole_sweep_is_clean_and_its_ratios_true(tmp_path):
    machine = Machine()
    ledger = sweep(tmp_path / "ledger.json", machine)
    assert audit(ledger) == []
    assert len(ledger["points"]) == len(machine.servers) == 3 * 3 * 2 * 2
    assert ledger == run_ledger.load_ledger(tmp_path / "ledger.json")
    one_user = next(
        row
        for row in ledger["comparisons"]
        if (row["load"], row["metric"]) == ("concurrency 1", "output_tokens_per_s")
    )
    assert one_user["ratio"]["estimate"] == pytest.approx(1.5)


def test_warm_up_stays_out_and_blocks_pair_up(tmp_path):
    machine = Machine()
    ledger = sweep(tmp_path / "ledger.json", machine)
    heldout = {prompt.text for prompt in HELDOUT if prompt.kind != "copy"}
    for server, point in zip(machine.servers, ledger["points"], strict=True):
        assert len(server.warm_up) == 2 and len(server.served) == 10
        assert not set(server.warm_up) & heldout
        assert point["figures"]["num_requests"] == 10
    prints = Counter(point["workload"]["fingerprint"] for point in ledger["points"])
    assert set(prints.values()) == {2 * len(LOADS)}  # both methods, and the same at every load


@pytest.mark.parametrize("dies_at", [0, 1, 7, 35])
def test_a_killed_sweep_goes_on_and_repeats_nothing(tmp_path, dies_at):
    whole = sweep(tmp_path / "whole.json", Machine())
    path = tmp_path / "killed.json"
    first, second, third = Machine(dies_at), Machine(), Machine()
    with pytest.raises(KeyboardInterrupt):
        sweep(path, first)
    ledger = sweep(path, second)
    assert len(first.servers) == dies_at
    assert len(first.servers) + len(second.servers) == len(ledger["points"])
    assert [point_key(p) for p in ledger["points"]] == [point_key(p) for p in whole["points"]]
    assert ledger["points"] == whole["points"] and ledger["comparisons"] == whole["comparisons"]
    sweep(path, third)
    assert third.servers == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("settings", {"seeds": [9]}), ("commit", "1" * 40), ("versions", {}), ("machine", None)],
)
def test_other_conditions_do_not_go_into_the_same_ledger(tmp_path, key, value):
    path = tmp_path / "ledger.json"
    sweep(path, Machine(), tasks=[])
    other = fresh()
    other[key] = value if value is not None else other[key] | {"num_threads": 99}
    with pytest.raises(InputError, match="was measured with (an)?other"):
        resume_or(other, path)


class HogServer(Server):
    """Computes in the driver's loop for as long as it is told to, so that requests leave late."""

    seconds = 0.0

    async def stream(self, request):
        asyncio.get_running_loop().advance(self.seconds)
        async for tokens in super().stream(request):
            yield tokens


@pytest.mark.parametrize(("num_late", "is_valid"), [(2, True), (4, False)])
def test_a_run_that_is_not_valid_is_measured_again_and_told_of(tmp_path, num_late, is_valid):
    opened = []

    @asynccontextmanager
    async def open_server(method):
        server = HogServer(method)
        server.seconds = 0.5 if len(opened) < num_late else 0.0
        opened.append(server)
        yield server

    machine = type("M", (), {"open": staticmethod(open_server)})
    (task,) = plan(["baseline"], [OpenLoop(4.0)], [0], 1)
    (point,) = sweep(tmp_path / "ledger.json", machine, [task])["points"]
    assert len(opened) == min(num_late + 1, 4)
    assert len(point["validity"]["discarded"]) == min(num_late, 3)
    assert all("driver late" in why for (why,) in point["validity"]["discarded"])
    assert (point["validity"]["problems"] == []) is is_valid


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError, match="as well"):
        Workload(RECIPES["balanced"], "main", MAIN, MAIN[:3], 5, 1)
    with pytest.raises(InputError, match="warm the server up"):
        Workload(RECIPES["balanced"], "main", MAIN, HELDOUT, 5, 0)
    with pytest.raises(InputError, match="nothing to measure"):
        plan(["a"], [], [0], 1)
