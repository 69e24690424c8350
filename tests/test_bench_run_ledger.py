"""The serving ledger: what a point holds, what pairs up, and how ratios come about."""

import copy
import json

import pytest
import serving_kit

from kernels.runtime import InputError
from lessons.lib.bench import run_ledger
from lessons.lib.bench.arrivals import ClosedLoop, OpenLoop


@pytest.fixture(scope="module")
def ledger():
    return serving_kit.clean_ledger()


def test_survives_the_disk_and_refuses_a_point_twice(ledger, tmp_path):
    path = tmp_path / "deep" / "ledger.json"
    part = ledger | {"points": ledger["points"][:2]}
    run_ledger.append_point(part, ledger["points"][2], path)
    assert run_ledger.load_ledger(path) == json.loads(json.dumps(part))
    run_ledger.append_point(part, ledger["points"][0], path)
    with pytest.raises(InputError, match="measured 2 times: .'baseline', 'concurrency 1', 0, 0"):
        run_ledger.load_ledger(path)


def test_names_of_loads():
    loads = [ClosedLoop(4), OpenLoop(2.0), OpenLoop(0.5, 0.25), OpenLoop(3.0, float("inf"))]
    names = [run_ledger.load_name(run_ledger.describe_arrivals(load)) for load in loads]
    assert names == ["concurrency 4", "rate 2 poisson", "rate 0.5 gamma 0.25", "rate 3 constant"]


def test_point_says_what_ran(ledger):
    point = ledger["points"][1]
    assert run_ledger.point_key(point) == ("ngram-4", "concurrency 1", 0, 0)
    assert point["workload"]["kinds"] == dict.fromkeys(("maths", "copy", "json", "code", "chat"), 4)
    assert point["workload"]["num_distinct"] == point["workload"]["num_requests"] == 20
    assert {request["output_tokens"] for request in point["requests"].values()} == {9}
    times = [request["ttft_ms"] for request in point["requests"].values()]
    assert sum(times) / 20 == pytest.approx(run_ledger.figure(point, "ttft_ms.mean"))
    assert run_ledger.figure(point, "output_tokens_per_s") == pytest.approx(
        180 / point["figures"]["duration_s"]
    )
    assert run_ledger.figure(point, "ttft_ms.p99") is None
    assert point["missing"] == {"memory_gb.graphs": "no CUDA device"}
    untold = run_ledger.EngineFacts(setup={})
    assert untold.acceptance is None


def test_ratios_pair_up_and_are_those_of_the_simulated_servers(ledger):
    rows = run_ledger.compare(ledger["points"], "tpot_ms.p50")
    assert [row["load"] for row in rows] == ["concurrency 1", "concurrency 4", "rate 5 poisson"]
    for row in rows:
        assert (row["method"], row["num_blocks"], row["num_seeds"]) == ("ngram-4", 6, 3)
        assert row["ratio"]["low"] <= row["ratio"]["estimate"] <= row["ratio"]["high"]
        assert row["ratio"]["estimate"] == pytest.approx(0.12 / 0.08)  # same draws in a block
    throughput = run_ledger.compare(ledger["points"], "output_tokens_per_s")
    assert throughput[0]["ratio"]["estimate"] == pytest.approx(1.5)  # one user waits for nobody


def test_slower_is_below_one_whichever_way_a_metric_points(ledger):
    swapped = copy.deepcopy(ledger["points"])
    for point in swapped:
        point["method"] = {"baseline": "ngram-4", "ngram-4": "baseline"}[point["method"]]
    for metric in run_ledger.METRICS:
        here = run_ledger.compare(ledger["points"], metric)
        there = run_ledger.compare(swapped, metric)
        for row, other in zip(here, there, strict=True):
            if row["ratio"]:
                assert row["ratio"]["estimate"] * other["ratio"]["estimate"] == pytest.approx(1)


def test_invalid_and_missing_blocks_leave_no_ratio(ledger):
    points = copy.deepcopy(ledger["points"])
    for point in points[:4]:
        point["validity"]["problems"] = ["driver late"]
    rows = run_ledger.compare(points, "tpot_ms.p50")
    assert rows[0]["ratio"] is None
    assert rows[0]["missing"]["ratio"] == "needs 5 blocks measured on both sides, has 4"
    assert rows[1]["ratio"] is not None


def test_a_block_without_any_good_request_is_not_left_out_of_the_mean(ledger):
    points = copy.deepcopy(ledger["points"])
    points[1]["figures"]["goodput_rps"] = 0.0
    row = run_ledger.compare(points, "goodput_rps")[0]
    assert row["ratio"] is None
    assert row["missing"]["ratio"] == "1 of 6 blocks have no goodput_rps above 0"


def test_length_parity_is_over_the_requests_that_both_sides_served(ledger):
    points = copy.deepcopy(ledger["points"])
    drafted = [p for p in points if p["method"] == "ngram-4" and load_of(p) == "concurrency 4"]
    for point in drafted:
        first, second, third, *_ = point["requests"].values()
        first["output_tokens"], second["output_tokens"] = 6, 12
        point["requests"]["unheard of"] = third | {"output_tokens": 500}
    rows = {row["load"]: row for row in run_ledger.length_parity(points)}
    same = rows["concurrency 1"]
    assert (same["tokens"], same["target_only_tokens"], same["error"]) == (9, 9, 0)
    assert same["num_requests"] == 120 and same["same_share"] == 1
    row = rows["concurrency 4"]
    assert row["num_requests"] == 120 and row["same_share"] == pytest.approx(0.9)
    assert row["tokens"] == pytest.approx(9)  # 3 more here, 3 fewer there: the mean hides it
    assert row["error"] == pytest.approx((0.1 * 9) ** 0.5 / 120**0.5)
    assert run_ledger.length_parity([p for p in points if p["method"] != "baseline"]) == []


def load_of(point):
    return run_ledger.load_name(point["arrivals"])


def test_what_must_not_be_compared(ledger):
    with pytest.raises(InputError, match="cannot compare methods by 'itl_ms.p50'"):
        run_ledger.compare(ledger["points"], "itl_ms.p50")
    points = copy.deepcopy(ledger["points"])
    points[0]["workload"]["fingerprint"] = "another"
    with pytest.raises(InputError, match="its baseline had other requests"):
        run_ledger.compare(points, "tpot_ms.p50")


def test_table_has_a_row_a_point(ledger):
    table = run_ledger.to_table(ledger)
    assert len(table) == len(ledger["points"])
    assert {"method", "arrivals.rate", "figures.ttft_ms.p50"} <= set(table.columns)
    assert not any(column.startswith("requests") for column in table.columns)
