"""A small serving ledger that is clean, measured on simulated servers in virtual time."""

from dataclasses import asdict

from lessons.lib.bench import run_ledger
from lessons.lib.bench.arrivals import ClosedLoop, OpenLoop
from lessons.lib.bench.driver import drive
from lessons.lib.bench.latency import Slo
from lessons.lib.bench.mixture import RECIPES, draw_requests
from lessons.lib.bench.run_ledger import EngineFacts, Task, make_point
from lessons.lib.bench.simulate import SimulatedServer, exponential_service, run_virtual
from lessons.lib.bench.workload import load_prompts
from lessons.lib.metrics import Acceptance

LOADS = (ClosedLoop(1), ClosedLoop(4), OpenLoop(5.0))
SLO = Slo(ttft_ms=500, tpot_ms=40)
SETUP = {"engine": "simulated", "dtype": "bfloat16", "graphs": True}
SERVICE_S = {"baseline": 0.12, "ngram-4": 0.08}
CHUNKS = {"baseline": (1,) * 9, "ngram-4": (1, 3, 3, 2)}


def facts(method):
    return EngineFacts(
        setup=dict(SETUP),
        acceptance=asdict(Acceptance([0.7, 0.5], [0.7, 0.5 / 0.7], [1.0, 1.0])),
        acceptance_length=2.2,
        phase_shares={"draft": 0.1, "verify": 0.8, "rest": 0.1},
        round_ms={"draft": 2.0, "verify": 16.0, "rest": 2.0, "requests": 1.0, "rows": 5.0},
        prefill={"tokens": 60.0, "beside_ms": 0.5},
        verify_efficiency=0.6,
        memory_gb={"weights": 0.3, "draft_kv": 0.0, "graphs": None, "peak": 0.5},
        preemptions=0,
        missing={"memory_gb.graphs": "no CUDA device"},
    )


def point(method, load, seed, block):
    """One run of twenty requests; both methods meet the same weather in a block."""
    draw = 10 * seed + block
    requests = draw_requests(RECIPES["balanced"], load_prompts("heldout"), 20, draw)

    async def work():
        service = exponential_service(SERVICE_S[method], draw)
        return await drive(SimulatedServer(service, CHUNKS[method]), requests, load, draw)

    run = run_virtual(work())
    return make_point(
        Task(method, load, seed, block),
        RECIPES["balanced"],
        "heldout",
        requests,
        run,
        facts(method),
        SLO,
        4,
    )


def clean_ledger(seeds=3, blocks=2):
    """Two methods, interleaved by blocks, at every load, with comparisons."""
    ledger = run_ledger.new_ledger("cpu", "bench --test", {"seeds": list(range(seeds))})
    ledger["commit"] = "0" * 40
    ledger["points"] = [
        point(method, load, seed, block)
        for load in LOADS
        for seed in range(seeds)
        for block in range(blocks)
        for method in SERVICE_S
    ]
    ledger["comparisons"] = run_ledger.compare(ledger["points"], "tpot_ms.p50")
    return ledger
