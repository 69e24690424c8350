"""Latency figures on logs that were worked out by hand."""

import json

import pytest

from kernels.runtime import InputError
from lessons.lib.bench.latency import Chunk, RequestLog, Slo, summarise


def log(name="a", sent=0.0, chunks=(), end=None, scheduled=None, error=None):
    marks = tuple(Chunk(*chunk) for chunk in chunks)
    last = marks[-1].time_s if marks else sent
    return RequestLog(name, sent, last if end is None else end, marks, scheduled, error)


# Sent at 1 s; tokens 1, 3, 2 at 1.2, 1.3 and 1.6 s; stream closed at 1.7 s.
SPECULATIVE = log(sent=1.0, chunks=[(1.2, 1), (1.3, 3), (1.6, 2)], end=1.7, scheduled=0.998)


def test_one_request():
    assert SPECULATIVE.output_tokens == 6
    assert SPECULATIVE.ttft_ms == pytest.approx(200)
    assert SPECULATIVE.tpot_ms == pytest.approx(400 / 5)
    assert SPECULATIVE.itl_ms == pytest.approx([100, 300])
    assert SPECULATIVE.e2e_ms == pytest.approx(700)
    assert SPECULATIVE.lateness_ms == pytest.approx(2)


def test_tokens_of_the_first_chunk_took_no_further_time():
    assert log(chunks=[(0.1, 4), (0.3, 1), (0.5, 1)]).tpot_ms == pytest.approx(200)


def test_bundling_tokens_leaves_tpot_alone_and_doubles_itl():
    single = log(chunks=[(0.1, 1), *((0.1 + 0.05 * i, 1) for i in range(1, 9))])
    bundled = log(chunks=[(0.1, 1), *((0.1 + 0.10 * i, 2) for i in range(1, 5))])
    assert single.output_tokens == bundled.output_tokens
    assert single.tpot_ms == pytest.approx(bundled.tpot_ms) == pytest.approx(50)
    assert single.itl_ms == pytest.approx([50] * 8) and bundled.itl_ms == pytest.approx([100] * 4)


def test_what_a_request_does_not_have_is_none():
    assert log(chunks=[(0.1, 3)]).tpot_ms is None
    assert log(chunks=[(0.1, 3)]).itl_ms == []
    assert log().ttft_ms is None and log().tpot_ms is None
    assert log().lateness_ms is None


def test_summary_of_a_run():
    first = log("a", sent=0.0, chunks=[(0.1, 1), (0.3, 2)], scheduled=0.0)  # ttft 100, tpot 100
    second = log("b", sent=1.0, chunks=[(1.3, 1), (1.5, 2)], scheduled=0.9)  # ttft 300, tpot 100
    broken = log("c", sent=1.5, chunks=[(1.6, 1)], end=2.0, scheduled=1.5, error="closed")
    row = summarise([first, second, broken], Slo(ttft_ms=200, tpot_ms=150))
    assert (row["num_requests"], row["num_failed"], row["num_good"]) == (3, 1, 1)
    assert row["duration_s"] == pytest.approx(2.0)
    assert row["output_tokens"] == 6 and row["output_tokens_per_s"] == pytest.approx(3.0)
    assert row["requests_per_s"] == pytest.approx(1.0) and row["goodput_rps"] == pytest.approx(0.5)
    assert row["ttft_ms"]["p50"] == pytest.approx(200) and row["ttft_ms"]["count"] == 2
    assert row["e2e_ms"]["mean"] == pytest.approx(400) and row["e2e_ms"]["max"] == pytest.approx(
        500
    )
    assert row["tokens_per_chunk"] == 1.5
    assert row["lateness_ms"]["max"] == pytest.approx(100)
    assert row["ttft_ms"]["p99"] is None
    assert row["missing"]["ttft_ms.p99"] == "needs 100 values, has 2"
    assert row["missing"]["lateness_ms.p99"] == "needs 100 values, has 3"
    json.dumps(row, allow_nan=False)


def test_a_run_starts_at_its_first_arrival_even_if_that_was_sent_late():
    row = summarise([log(sent=1.0, end=3.0, scheduled=0.5), log("b", sent=2.0, end=2.5)])
    assert row["duration_s"] == pytest.approx(2.5)
    assert row["requests_per_s"] == pytest.approx(0.8)


def test_percentiles_interpolate():
    row = summarise([log(str(i), end=i / 1000) for i in range(1, 101)])
    assert row["e2e_ms"]["p50"] == pytest.approx(50.5)
    assert row["e2e_ms"]["p99"] == pytest.approx(99.01)


def test_every_null_has_a_reason_and_nothing_missing_is_zero():
    row = summarise([log(end=0.4)])
    nulls = {key for key, value in row.items() if value is None}
    assert {"slo", "goodput_rps", "ttft_ms", "tpot_ms", "itl_ms", "lateness_ms"} <= nulls
    assert nulls <= row["missing"].keys()
    failed = summarise([log(error="refused", end=0.4)], Slo(e2e_ms=1000))
    assert failed["missing"]["e2e_ms"] == "no request finished"
    assert failed["goodput_rps"] == 0.0  # measured: none was good


@pytest.mark.parametrize(
    ("limits", "chunks", "good"),
    [
        ({"ttft_ms": 100}, [(0.1, 1)], True),
        ({"ttft_ms": 99}, [(0.1, 1)], False),
        ({"tpot_ms": 10}, [(0.1, 5)], True),  # all at once: no time per further token
        ({"tpot_ms": 10}, [(0.1, 1), (0.2, 5)], False),
        ({"tpot_ms": 20}, [(0.1, 1), (0.2, 5)], True),
        ({"ttft_ms": 100, "e2e_ms": 150}, [(0.1, 1), (0.2, 5)], False),
        ({"ttft_ms": 1000}, [], False),
        ({"e2e_ms": 1000}, [], True),
    ],
)
def test_a_good_request_keeps_all_limits(limits, chunks, good):
    assert Slo(**limits).holds(log(chunks=chunks)) is good


def test_a_failed_request_is_never_good():
    assert not Slo(e2e_ms=1e9).holds(log(chunks=[(0.1, 1)], error="closed"))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: log(sent=1.0, chunks=[(0.5, 1)]),
        lambda: log(chunks=[(0.5, 1), (0.4, 1)]),
        lambda: log(chunks=[(0.5, 1)], end=0.4),
        lambda: log(chunks=[(0.5, 0)]),
        lambda: log(sent=1.0, scheduled=1.5),
        lambda: Slo(),
        lambda: Slo(ttft_ms=0),
        lambda: summarise([]),
    ],
)
def test_impossible_logs_are_refused(wrong):
    with pytest.raises(InputError):
        wrong()
