"""The model's own run against a formula where there is one, and a server whose truth is known."""

import statistics
from dataclasses import replace

import pytest

from lessons.lib.bench.arrivals import ClosedLoop, OpenLoop
from lessons.lib.bench.driver import drive
from lessons.lib.bench.mixture import Request
from lessons.lib.bench.replay import RunLaw, tpots_ms
from lessons.lib.bench.simulate import BatchServer, run_virtual

SURVIVAL = (0.7, 0.45, 0.2, 0.1)
TOKENS = 1 + sum(SURVIVAL)
PREFILL_MS = 60.0


def plain_ms(batch):
    return 10 + 0.5 * batch


def drafted_ms(batch):
    return 14 + 2.5 * batch


PLAIN = RunLaw(plain_ms, lambda rows, chunk: PREFILL_MS * chunk / 100, 1.0, 0.0, 16, 10_000)
DRAFTED = replace(PLAIN, round_ms=drafted_ms, rows=5.0)


def median_tpot(law, load, answers, seed=0):
    return statistics.median(tpots_ms(law, load, 100, answers, seed))


def answers_of(law, outputs):
    """As many rounds as the outputs take on average."""
    tokens = TOKENS if law is DRAFTED else 1
    return [(n, round((n - 1) / tokens)) for n in outputs]


def truth(law, load, outputs, seed=0):
    """Median TPOT of the simulated server, which draws what rounds accept, and its answers."""
    survival = SURVIVAL if law is DRAFTED else ()
    server = BatchServer(lambda b: law.round_ms(b) / 1000, PREFILL_MS / 1000, survival, seed)
    asked = [Request(f"{i}", "chat", str(i), n, 0.0, i) for i, n in enumerate(outputs)]
    logs = run_virtual(drive(server, asked, load, seed)).requests
    answers = [(log.output_tokens, len(log.chunks) - 1) for log in logs]
    return statistics.median(log.tpot_ms for log in logs), answers


@pytest.mark.parametrize("law", [PLAIN, DRAFTED], ids=["plain", "drafted"])
@pytest.mark.parametrize("users", [1, 2, 4, 8])
def test_a_steady_loop_gives_the_formula(law, users):
    """R(B) / tau + (B - 1) P / (N - 1). Outputs differ a little, so that users drift apart."""
    outputs = [90 + 5 * (i % 5) for i in range(60 * users)]
    tokens = TOKENS if law is DRAFTED else 1
    formula = law.round_ms(users) / tokens + (users - 1) * PREFILL_MS / 99
    found = median_tpot(law, ClosedLoop(users), answers_of(law, outputs))
    assert found == pytest.approx(formula, rel=0.05)


def test_without_prefills_the_speedup_is_that_of_the_rounds():
    plain, drafted = (
        median_tpot(
            replace(law, chunk_ms=lambda rows, chunk: 0.0),
            ClosedLoop(1),
            answers_of(law, [2001] * 3),
        )
        for law in (PLAIN, DRAFTED)
    )
    assert plain / drafted == pytest.approx(TOKENS * plain_ms(1) / drafted_ms(1), rel=1e-3)


def test_neighbours_prefills_eat_the_gain():
    """They add as many ms to both sides of the ratio."""
    gains = []
    for prefill_ms in (1.0, 20.0, 300.0):
        plain, drafted = (
            median_tpot(
                replace(law, chunk_ms=lambda rows, chunk, ms=prefill_ms: ms * chunk / 100),
                ClosedLoop(2),
                answers_of(law, [25 + i % 5 for i in range(160)]),
            )
            for law in (PLAIN, DRAFTED)
        )
        gains.append(plain / drafted)
    assert gains == sorted(gains, reverse=True) and gains[0] > 1.3 and 1 < gains[2] < 1.2


@pytest.mark.parametrize("law", [PLAIN, DRAFTED], ids=["plain", "drafted"])
@pytest.mark.parametrize(
    ("load", "count"),
    [(ClosedLoop(b), 10 + 2 * b) for b in (1, 2, 4, 8, 16)]
    + [(OpenLoop(rate), 40) for rate in (1.0, 3.0, 5.0)],
    ids=str,
)
def test_short_runs_come_out_as_on_the_server(law, load, count):
    """Uneven answers, a beginning and an end, queues: what the formula leaves out."""
    for seed in range(4):
        outputs = [12 + (7 * i + 11 * seed) % 35 for i in range(count)]
        true_ms, answers = truth(law, load, outputs, seed)
        assert median_tpot(law, load, answers, seed) == pytest.approx(true_ms, rel=0.03)


def test_a_long_prompt_is_cut_to_the_budget_and_no_one_is_lost():
    rows = []

    def chunk_ms(_rounds, chunk):
        rows.append(chunk)
        return 1.0

    law = replace(DRAFTED, chunk_ms=chunk_ms, token_budget=64)
    assert (
        len(tpots_ms(law, ClosedLoop(3), 150, [(20, 9), (1, 0), (30, 12), (40, 20)], 0)) == 3
    )  # one has no TPOT
    assert max(rows) <= 64 and sum(rows) == 4 * 150


def test_no_more_run_at_a_time_than_the_engine_takes():
    most = []
    law = replace(PLAIN, max_running=4, round_ms=lambda batch: most.append(batch) or 10.0)
    tpots_ms(law, ClosedLoop(16), 10, [(20, 19)] * 16, 0)
    assert max(most) == 4
