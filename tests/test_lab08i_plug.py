"""Lab 8I's runs: the checks' slow references agree with the course's own instruments on them."""

import random

import pytest

from lessons.lib.bench import audit, bootstrap
from lessons.lib.bench.latency import Chunk, RequestLog, Slo, summarise
from lessons.lib.checks import event_logs, ledger_faults, load_curves
from lessons.lib.plugs import lab08i as plug

FAULT_OF = {"A": ["baseline-differs"], "B": ["repeated-prompts"], "C": ["failed-requests"]}


def request_log(place, one):
    chunks = tuple(Chunk(*chunk) for chunk in one["chunks"])
    error = "failed" if one["failed"] else None
    return RequestLog(str(place), one["sent_s"], one["end_s"], chunks, one["scheduled_s"], error)


@pytest.mark.parametrize("seed", range(8))
def test_the_reference_of_the_figures_is_the_instrument(seed):
    rng = random.Random(seed)
    log = event_logs.draw_log(rng, 12, is_open=seed % 2 == 0)
    slo = event_logs.draw_slo(rng, log, 1 + seed % 3)
    logs = [request_log(place, one) for place, one in enumerate(log)]
    row = summarise(logs, Slo(**slo))
    assert event_logs.goodput(log, slo) == pytest.approx(row["goodput_rps"])
    for name in event_logs.LATENCIES:
        values = event_logs.latencies(log, name)
        assert len(values) == row[name]["count"]
        assert sum(values) / len(values) == pytest.approx(row[name]["mean"])
    assert plug.plain_log(logs) == log


@pytest.mark.parametrize("number", range(10))
def test_the_reference_of_the_crossing_is_the_instrument(number):
    loads, ratios = load_curves.draw_curve(random.Random(number), number)
    ratios = [2 * row for row in ratios]  # the instrument wants five blocks; means stay
    point = bootstrap.crossing(dict(zip(loads, ratios, strict=True))).load
    means = [load_curves._geometric(row) for row in ratios]
    mine = load_curves.crossing_by_halving(loads, means)
    assert (bootstrap.NEVER if mine is None else mine) == pytest.approx(point)


def test_a_made_up_sweep_shows_what_the_lesson_says():
    """TPOT falls and ITL grows for one user; for many the speedup ends, the same every time."""
    sweep = plug.simulate(num_blocks=1)
    assert sweep.points == plug.simulate(num_blocks=1).points
    base, drafts = (p["figures"] for p in sorted(sweep.points[:2], key=lambda p: p["method"]))
    assert drafts["tpot_ms"]["mean"] < 0.6 * base["tpot_ms"]["mean"]
    assert drafts["itl_ms"]["mean"] > base["itl_ms"]["mean"]
    assert sweep.ratios(plug.LOADS[0])[0] > 1.5 and sweep.ratios(plug.LOADS[-1])[0] < 1
    assert not ledger_faults.faults_by_pairs(plug.plain_points(sweep.points))


@pytest.mark.parametrize("name", plug.MISLEADING)
def test_each_misleading_ledger_has_its_one_fault(name):
    points = plug.misleading(name).points
    found = [f for f in ledger_faults.FAULTS if list(audit.RULES[f]({"points": points}))]
    assert found == FAULT_OF[name]
    assert sorted(ledger_faults.faults_by_pairs(plug.plain_points(points))) == found
