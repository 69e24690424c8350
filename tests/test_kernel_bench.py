"""The kernel bench: every operation has a row for every contestant, and bad options are named."""

import json

import pytest
import torch

from kernels import bench, bench_cases

TINY = bench_cases.Model("tiny", 3, 1, 16, 32, 2, 64, 48)
WITHOUT_OWN_OPERATION = {"accept_greedy", "accept_delta", "accept_chain", "kv_move"}


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(bench_cases.MODELS, "cpu", TINY)
    monkeypatch.setattr(bench, "copy_bandwidth", lambda device: 1e9)


def test_ledger_has_a_row_for_every_contestant(tiny, tmp_path):
    path = tmp_path / "kernels.json"
    options = ["--json", str(path), "--device", "cpu", "--dtype", "float32", "--repeats", "3"]
    assert bench.main(options) == 0
    ledger = json.loads(path.read_text())
    by_op = {}
    for row in ledger["rows"]:
        by_op.setdefault(row["op"], set()).add(row["contestant"])
        assert 0 < row["p10_us"] <= row["median_us"] <= row["p90_us"] and row["repeats"] == 3
        assert row["floor_us"] > 0
    for op, contestants in by_op.items():
        best = set() if op in WITHOUT_OWN_OPERATION else {"torch_best"}
        assert contestants == {"op", "reference"} | best
    with_own = {"tree_attention", "draft_topk", "add_rms_norm", "linear"}
    assert set(by_op) == WITHOUT_OWN_OPERATION | with_own
    assert ledger["path"] == "torch" and ledger["machine"]["torch"] and ledger["model"]


def test_table_and_bad_options(tiny, capsys):
    assert bench.main(["--device", "cpu", "--repeats", "1"]) == 0
    assert "tree_attention" in capsys.readouterr().out
    assert bench.main(["--repeats", "0"]) == 2
    assert capsys.readouterr().err == "error: --repeats is 0; give 1 or more\n"


def test_every_case_computes_what_its_reference_does(tiny):
    """A contestant that computes something else would be timed for nothing."""
    for case in bench.cases(TINY, torch.float32, torch.device("cpu")):
        if case.op == "kv_move":
            continue  # writes in place and returns nothing; tested with the pool
        torch.testing.assert_close(case.run(), case.reference())
        if case.op == "draft_topk":
            torch.testing.assert_close(case.best(), case.reference())


def test_copy_bandwidth_is_bytes_a_second(monkeypatch):
    monkeypatch.setattr(bench, "_take_turns", lambda contestants, *rest: {"copy": [1e6] * 10})
    assert bench.copy_bandwidth(torch.device("cpu")) == 2 * 2**28
