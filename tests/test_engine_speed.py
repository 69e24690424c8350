"""`bench-engine` on a tiny model: what is counted, what is null, and going on after a stop."""

import builtins
import json
from pathlib import Path

import pytest

from kernels.graphs import RecordingBackend
from lessons.lib.bench import engine_bench, engine_machine
from lessons.lib.bench.engine_speed import BATCHES, NUM_NODES
from lessons.lib.bench.ledger import read_ledger
from lessons.lib.cli import main
from lessons.lib.model.loader import load_model
from tests.engine_models import reference_model, write_folder

FAST = "decode,verify,share,batch,kernels,graphs"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    reference = reference_model("llama", max_position_embeddings=512)
    return str(write_folder(reference, tmp_path_factory.mktemp("model")))


def bench(model, out, *more, parts=FAST):
    command = ["bench-engine", "--model", model, "--json", str(out), "--parts", parts]
    settings = ["--dtypes", "float32", "--repeats", "2", "--max-new-tokens", "6"]
    return main([*command, *settings, "--device", "cpu", *more])


@pytest.fixture(scope="module")
def ledger(model, tmp_path_factory):
    out = tmp_path_factory.mktemp("ledger") / "engine.json"
    assert bench(model, out) == 0
    return read_ledger(out, engine_bench.SCHEMA)


def in_order(spread):
    return 0 < spread["p25"] <= spread["median"] <= spread["p75"]


def test_head_names_machine_settings_and_command(ledger):
    assert ledger["command"].startswith("python -m lessons.lib bench-engine")
    assert ledger["machine"]["device"] == "cpu" and ledger["machine"]["num_threads"] >= 1
    assert ledger["settings"]["seed"] == 0 and ledger["settings"]["repeats"] == 2
    assert "OMP_WAIT_POLICY" in ledger["settings"]["environment"]
    assert list(ledger["results"]) == ["float32"]
    assert list(ledger["results"]["float32"]) == FAST.split(",")


def test_decode_pairs_every_prompt_with_transformers(ledger):
    found = ledger["results"]["float32"]["decode"]
    assert found["peer"].startswith("transformers ") and found["missing"] == {}
    assert len(found["rows"]) == 3 * 2 and found["same_tokens"] == 6
    ratios = sorted(row["peer_ms"] / row["ours_ms"] for row in found["rows"])
    assert found["speedup"]["median"] == pytest.approx((ratios[2] + ratios[3]) / 2)
    assert in_order(found["ours_ms_per_token"]) and in_order(found["peer_ms_per_token"])


def test_verify_covers_the_grid_relative_to_one_node(ledger):
    rows = ledger["results"]["float32"]["verify"]["rows"]
    assert [(row["batch"], row["nodes"]) for row in rows] == [
        (batch, nodes) for batch in BATCHES for nodes in NUM_NODES
    ]
    for row in rows:
        assert row["turns"] == 2 and in_order(row["ms"]) and in_order(row["to_one_node"])
        if row["nodes"] == 1:
            assert row["to_one_node"] == {"median": 1, "p25": 1, "p75": 1}


def test_share_counts_decode_steps_alone(ledger):
    none, ngram = ledger["results"]["float32"]["share"]["rows"]
    assert (none["method"], none["num_steps"]) == ("none", 3 * 2 * 5)
    assert ngram["method"] == "ngram" and 0 < ngram["num_steps"] <= none["num_steps"]
    for row in (none, ngram):
        assert sum(row["phase_shares"].values()) == pytest.approx(1)
        assert 0 < row["outside_forward"]["median"] < 1
    assert ngram["phase_shares"]["draft"] > none["phase_shares"]["draft"]


def test_batch_is_held_against_its_requests_alone(ledger):
    found = ledger["results"]["float32"]["batch"]
    assert found["batch"] == 8 and found["turns"] == 2
    assert found["times_batch_1"]["median"] == pytest.approx(8 * found["efficiency"]["median"])
    assert in_order(found["tokens_per_s"]) and in_order(found["tokens_per_s_batch_1"])


def test_what_needs_a_card_is_null_with_a_reason(ledger):
    for part in ("kernels", "graphs"):
        found = ledger["results"]["float32"][part]
        assert found["rows"] is None and "no CUDA device" in found["missing"]["rows"]


def test_a_second_run_goes_on_and_measures_nothing_twice(model, tmp_path, monkeypatch, capsys):
    out = tmp_path / "engine.json"
    assert bench(model, out, parts="share") == 0
    first = json.loads(out.read_text())
    monkeypatch.setitem(engine_bench.PARTS, "share", lambda bench: pytest.fail("measured twice"))
    assert bench(model, out, parts="share,kernels") == 0
    found = json.loads(out.read_text())
    assert found["results"]["float32"]["share"] == first["results"]["float32"]["share"]
    assert "kernels" in found["results"]["float32"]
    assert found["command"].count("bench-engine") == 2
    assert "float32   share    outside_forward" in capsys.readouterr().out


def test_figures_of_other_settings_are_not_mixed(model, tmp_path, capsys):
    out = tmp_path / "engine.json"
    assert bench(model, out, parts="kernels") == 0
    assert bench(model, out, "--repeats", "1", parts="graphs") == 2
    assert "measurement with other settings" in capsys.readouterr().err
    assert list(json.loads(out.read_text())["results"]["float32"]) == ["kernels"]


def test_without_transformers_ours_is_measured_and_the_rest_is_null(model, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "transformers":
            raise ImportError("No module named 'transformers'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    out = tmp_path / "engine.json"
    assert bench(model, out, parts="decode") == 0
    found = json.loads(out.read_text())["results"]["float32"]["decode"]
    assert in_order(found["ours_ms_per_token"]) and found["speedup"] is None
    assert "No module named 'transformers'" in found["missing"]["speedup"]


@pytest.mark.parametrize(
    "more, message",
    [
        (("--parts", "sprint"), "unknown part 'sprint'; choose from decode"),
        (("--dtypes", "int4"), "unknown dtype 'int4'"),
        (("--parts", ","), "no part is left"),
        (("--repeats", "0"), "at least one repeat"),
    ],
)
def test_bad_arguments_are_one_line(model, tmp_path, capsys, more, message):
    assert bench(model, tmp_path / "engine.json", *more) == 2
    assert message in capsys.readouterr().err


def test_graphs_are_timed_against_eager_steps(model):
    """The code that a card runs, on the backend that runs a step again instead of replaying."""
    target, _ = load_model(model, "float32", "cpu")
    found = engine_machine.time_graphs(target, 2, RecordingBackend())
    assert [(row["batch"], row["nodes"]) for row in found["rows"]] == [
        (1, 1),
        (1, 8),
        (8, 1),
        (8, 8),
    ]
    assert all(in_order(row["speedup"]) for row in found["rows"])
    assert found["buckets"]["sizes"][-1] == 64 and found["buckets"]["num_bytes"] > 0
    assert 0 <= found["buckets"]["largest_waste"] <= 0.1 + 1e-9
    assert found["buckets"]["captured_bytes"] > 0


def test_the_committed_ledger_can_be_read():
    path = Path(__file__).parents[1] / "course/results/engine_cpu.json"
    ledger = read_ledger(path, engine_bench.SCHEMA)
    told = engine_bench.table(ledger)
    for dtype in ("bfloat16", "float32"):
        for part in ("decode", "verify", "share", "batch"):
            assert f"{dtype:<9} {part:<8} " in told
        found = ledger["results"][dtype]
        assert found["decode"]["speedup"]["median"] >= 1.5
        assert all(row["outside_forward"]["median"] <= 0.15 for row in found["share"]["rows"])


@pytest.mark.slow
def test_ways_of_waiting_run_in_processes_of_their_own(model, tmp_path):
    out = tmp_path / "engine.json"
    assert bench(model, out, parts="openmp") == 0
    rows = json.loads(out.read_text())["results"]["float32"]["openmp"]["rows"]
    assert [row["wait"] for row in rows] == list(engine_machine.WAITS)
    assert all(in_order(row["decode_ms"]) and in_order(row["verify_8_ms"]) for row in rows)
