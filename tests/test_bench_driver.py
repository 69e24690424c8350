"""The driver in virtual time, against queueing theory and against stalls put in on purpose."""

import asyncio
import math

import numpy as np
import pytest

from kernels.runtime import InputError
from lessons.lib.bench import driver
from lessons.lib.bench.arrivals import ClosedLoop, OpenLoop
from lessons.lib.bench.driver import RunLog, ServerError, drive
from lessons.lib.bench.latency import Slo, summarise
from lessons.lib.bench.mixture import Request
from lessons.lib.bench.simulate import (
    SimulatedServer,
    constant_service,
    exponential_service,
    mean_wait_s,
    run_virtual,
)

SERVICE_S, LOAD = 0.02, 0.6
RATE = LOAD / SERVICE_S
COUNT, WARM_UP, SEEDS = 2000, 200, 10
T_999 = 4.78  # Student's t, nine degrees of freedom, two-sided 99.9 %


def requests(count):
    return [Request(str(i), "chat", "hello", 16, 0.0, i) for i in range(count)]


def simulate(service, arrivals, count, seed=0, server=SimulatedServer, timeout_s=None, **options):
    async def work():
        return await drive(server(service, **options), requests(count), arrivals, seed, timeout_s)

    return run_virtual(work())


def exponential(seed):
    return exponential_service(SERVICE_S, 1000 + seed)


def constant(seed):
    return constant_service(SERVICE_S)


def waits(law, arrivals):
    """Mean seconds in the queue, one a seed; the first requests meet an empty server."""
    runs = [simulate(law(seed), arrivals, COUNT, seed) for seed in range(SEEDS)]
    assert all(run.problems() == [] for run in runs)
    return [np.mean([log.ttft_ms for log in run.requests[WARM_UP:]]) / 1000 for run in runs]


def is_within(values, expected):
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return abs(np.mean(values) - expected) < T_999 * error


@pytest.fixture(scope="module")
def measured_waits():
    poisson = OpenLoop(RATE)
    return {"M/M/1": waits(exponential, poisson), "M/D/1": waits(constant, poisson)}


THEORY = {
    "M/M/1": mean_wait_s(RATE, SERVICE_S, 2 * SERVICE_S**2),
    "M/D/1": mean_wait_s(RATE, SERVICE_S, SERVICE_S**2),
}


def test_theory_in_its_usual_form():
    assert THEORY["M/M/1"] == pytest.approx(LOAD / (1 / SERVICE_S - RATE))
    assert THEORY["M/D/1"] == pytest.approx(THEORY["M/M/1"] / 2)
    with pytest.raises(InputError, match="below 1"):
        mean_wait_s(50.0, 0.02, 0.001)


@pytest.mark.parametrize("queue", THEORY)
def test_waiting_times_are_those_of_theory(measured_waits, queue):
    assert is_within(measured_waits[queue], THEORY[queue])
    assert np.std(measured_waits[queue]) < 0.25 * THEORY[queue]  # narrow enough to tell laws apart


def test_a_wrong_law_is_noticed(measured_waits):
    assert not is_within(measured_waits["M/M/1"], THEORY["M/D/1"])
    assert not is_within(measured_waits["M/D/1"], THEORY["M/M/1"])
    bursty = waits(constant, OpenLoop(RATE, burstiness=0.5))
    assert not is_within(bursty, THEORY["M/D/1"])


def test_constant_arrivals_at_a_constant_server_never_wait():
    run = simulate(constant_service(SERVICE_S), OpenLoop(RATE, math.inf), 50)
    assert max(log.ttft_ms for log in run.requests) == pytest.approx(0, abs=1e-6)


def test_number_under_way_is_rate_times_time_in_the_system():
    run = simulate(exponential(0), OpenLoop(RATE), COUNT)
    row = summarise(run.requests)
    under_way = run.in_flight_s / row["duration_s"]
    assert under_way == pytest.approx(row["requests_per_s"] * row["e2e_ms"]["mean"] / 1000)
    assert run.little_gap() < 1e-9
    lost = RunLog(run.requests[: COUNT - 60], run.in_flight_s)
    assert "Little" in lost.problems()[0]


# --- stalls of 50 ms: requests of 100 ms, eleven chunks, 10 ms apart -----------------------------

STALL_S, CHUNKS = 0.05, (1,) * 11
SLO = Slo(ttft_ms=20, tpot_ms=12)


def stalled(places, count=200):
    stalls = dict.fromkeys(places, STALL_S)
    run = simulate(constant_service(0.1), ClosedLoop(1), count, chunks=CHUNKS, stalls=stalls)
    return run, summarise(run.requests, SLO)


def test_without_stalls_every_figure_is_the_nominal_one():
    run, row = stalled([])
    assert [row[name]["p99"] for name in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")] == (
        pytest.approx([0, 10, 10, 100], abs=1e-6)
    )
    assert row["num_good"] == 200 and row["goodput_rps"] == pytest.approx(10)


@pytest.mark.parametrize(
    ("count", "itl_p99", "e2e_p99"), [(1, 10, 100), (8, 10, 150), (40, 60, 150)]
)
def test_stalls_between_tokens_show_in_the_tail_once_they_are_one_in_a_hundred(
    count, itl_p99, e2e_p99
):
    """200 requests have 2000 gaps: a p99 needs more than 20 stalls in ITL, more than 2 in e2e."""
    run, row = stalled([(str(5 * i), 4) for i in range(count)])
    assert row["itl_ms"]["p99"] == pytest.approx(itl_p99)
    assert row["itl_ms"]["max"] == pytest.approx(60) and row["itl_ms"]["p50"] == pytest.approx(10)
    assert row["e2e_ms"]["p99"] == pytest.approx(e2e_p99)
    assert row["tpot_ms"]["max"] == pytest.approx(15) and row["tpot_ms"]["p50"] == pytest.approx(10)
    assert row["ttft_ms"]["max"] == pytest.approx(0, abs=1e-6)
    assert row["num_good"] == 200 - count
    seconds = 20 + count * STALL_S
    assert row["goodput_rps"] == pytest.approx((200 - count) / seconds)
    bad = {log.request_id for log in run.requests if not SLO.holds(log)}
    assert bad == {str(5 * i) for i in range(count)}


def test_stalls_before_the_first_token_show_in_ttft_alone():
    _, row = stalled([(str(i), 0) for i in range(0, 200, 10)])
    assert row["ttft_ms"]["p99"] == pytest.approx(50)
    assert row["itl_ms"]["max"] == row["tpot_ms"]["max"] == pytest.approx(10)
    assert row["num_good"] == 180


def test_an_open_loop_shows_the_requests_that_queue_behind_a_stall():
    stalls = {("4", 4): STALL_S}
    rate = 1 / 0.11  # 10 ms of slack a request, so a stall is worked off by five of them
    run = simulate(
        constant_service(0.1), OpenLoop(rate, math.inf), 12, chunks=CHUNKS, stalls=stalls
    )
    queued = [log.ttft_ms for log in run.requests]
    assert queued == pytest.approx([0] * 5 + [40, 30, 20, 10] + [0] * 3, abs=1e-6)


def test_a_closed_loop_hides_them():
    run, _ = stalled([("4", 4)], count=12)
    assert [log.ttft_ms for log in run.requests] == pytest.approx([0] * 12, abs=1e-6)


# --- the driver itself ---------------------------------------------------------------------------


def test_an_open_loop_never_waits_for_the_server():
    arrivals = OpenLoop(100.0)
    slow = simulate(constant_service(5.0), arrivals, 40)
    sent = [log.sent_s for log in slow.requests]
    assert sent == pytest.approx(list(arrivals.times(40, 0)))
    assert min(log.end_s for log in slow.requests) > sent[-1]
    assert slow.late_share() == 0 and slow.problems() == []


def test_a_closed_loop_keeps_its_number_of_users():
    run = simulate(constant_service(1.0), ClosedLoop(3), 12, num_servers=8)
    events = sorted(
        [(log.sent_s, 1) for log in run.requests] + [(log.end_s, -1) for log in run.requests]
    )
    assert max(np.cumsum([change for _, change in events])) == 3
    assert summarise(run.requests)["duration_s"] == pytest.approx(4.0)
    assert run.late_share() is None
    assert run.in_flight_s == pytest.approx(12.0)


class Hog(SimulatedServer):
    """Computes in the driver's own loop, as an engine in the same thread would."""

    async def stream(self, request):
        asyncio.get_running_loop().advance(0.03)
        yield 1
        yield 1


def test_a_driver_that_falls_behind_marks_the_run_invalid():
    run = simulate(None, OpenLoop(50.0, math.inf), 40, server=Hog)
    (problem,) = run.problems()
    assert problem.startswith("driver late") and run.late_share() > 0.9
    on_time = simulate(None, OpenLoop(20.0, math.inf), 40, server=Hog)
    assert on_time.problems() == []


def test_few_late_requests_are_tolerated_and_more_are_not():
    class Hiccup(SimulatedServer):
        async def stream(self, request):
            if request.request_id in self._stalls:
                asyncio.get_running_loop().advance(driver.LATE_MS / 1000 + 0.021)
            yield 1
            yield 1

    def problems(names):
        arrivals = OpenLoop(50.0, math.inf)  # a hiccup makes the next request late and no other
        return simulate(
            None, arrivals, 200, server=Hiccup, stalls=dict.fromkeys(names, 0.0)
        ).problems()

    assert problems(["10", "90"]) == []
    assert len(problems(["10", "90", "150"])) == 1


class Flaky(SimulatedServer):
    """Breaks off one request, never answers another."""

    async def stream(self, request):
        if request.request_id == "1":
            yield 1
            raise ServerError("page pool exhausted")
        if request.request_id == "2":
            await asyncio.sleep(1e6)
        async for tokens in super().stream(request):
            yield tokens


def test_failures_are_logged_and_the_run_goes_on():
    run = simulate(constant_service(0.1), OpenLoop(1.0), 5, server=Flaky, timeout_s=9.0)
    errors = [log.error for log in run.requests]
    assert errors[1] == "page pool exhausted" and errors[2] == "TimeoutError"
    assert [errors[i] for i in (0, 3, 4)] == [None] * 3
    assert run.requests[2].e2e_ms == pytest.approx(9000)
    assert run.requests[1].output_tokens == 1
    assert summarise(run.requests)["num_failed"] == 2
    assert run.problems() == []


def test_a_bug_in_the_server_is_no_failed_request():
    class Broken(SimulatedServer):
        async def stream(self, request):
            raise KeyError("a bug")
            yield 1

    with pytest.raises(ExceptionGroup):
        simulate(None, OpenLoop(1.0), 3, server=Broken)


def test_the_same_seed_gives_the_same_run():
    first, again, other = (
        simulate(exponential(0), OpenLoop(RATE), 50, seed).requests for seed in (1, 1, 2)
    )
    assert first == again != other


def test_virtual_time_reports_a_deadlock():
    async def forever():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="stands still"):
        run_virtual(forever())
