"""The arithmetic of measurements, on made-up rounds; no speed is asserted."""

import json

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.bench import ledger, plots
from lessons.lib.bench.run import (
    MethodSpec,
    Run,
    measure_methods,
    method_specs,
    run_interleaved,
    summarise,
)
from lessons.lib.bench.step_times import step_cost
from lessons.lib.bench.workload import KINDS, Prompt, load_prompts
from lessons.lib.engine import Engine
from lessons.lib.metrics import RoundRecord
from lessons.lib.model.loader import load_model
from tests.engine_models import reference_model, write_folder

BASELINE, NGRAM = MethodSpec("none", 0), MethodSpec("ngram", 2)


def run(spec, prompt, repeat, rounds, kind="copy", memory=0):
    records = [RoundRecord(p, a, a + 1, *times) for p, a, times in rounds]
    return Run(spec, kind, prompt, repeat, records, 5.0, memory)


@pytest.fixture
def runs():
    """Target-only at 10 ms a token on p and 20 on q; n-gram with rounds of 12, 15 and 30 ms."""
    return [
        run(BASELINE, "p", 0, [(0, 0, (0.0, 9.0, 1.0))] * 4),
        run(NGRAM, "p", 0, [(2, 2, (1.0, 10.0, 1.0)), (2, 0, (1.0, 13.0, 1.0))], memory=3_000_000),
        run(BASELINE, "q", 0, [(0, 0, (0.0, 18.0, 2.0))] * 2, kind="chat"),
        run(NGRAM, "q", 0, [(0, 0, (0.0, 28.0, 2.0))], kind="chat", memory=1_000_000),
    ]


def expected_tokens(conditional):
    survival, total = 1.0, 1.0
    for probability in conditional:
        survival *= probability
        total += survival
    return total


def test_summary_is_the_rows_arithmetic(runs):
    found = summarise(runs, NGRAM)
    assert found.name == "ngram-2" and found.depth == 2 and found.num_rounds == 3
    assert found.acceptance_length == pytest.approx(5 / 3)
    assert found.conditional_acceptance == [1 / 3, 1.0]
    assert (found.draft_ms, found.verify_ms, found.overhead_ms) == pytest.approx((2 / 3, 17, 4 / 3))
    assert found.ms_per_token == pytest.approx(57 / 5)
    assert found.speedup == pytest.approx((80 / 6) / (57 / 5))
    assert found.extra_memory_gb == 0.003
    assert set(found.as_method()) == {
        "name",
        "conditional_acceptance",
        "draft_ms",
        "verify_ms",
        "overhead_ms",
        "extra_memory_gb",
    }


def test_cost_model_on_one_repeat_gives_the_measured_speedup(runs):
    found, baseline = summarise(runs, NGRAM), summarise(runs, BASELINE)
    round_ms = found.draft_ms + found.verify_ms + found.overhead_ms
    tokens = expected_tokens(found.conditional_acceptance)
    assert tokens == pytest.approx(found.acceptance_length)
    assert tokens * baseline.ms_per_token / round_ms == pytest.approx(found.speedup)
    assert baseline.speedup == 1 and baseline.name == "baseline"


def test_repeats_are_paired_and_their_median_taken(runs):
    slow = [
        Run(r.spec, r.kind, r.prompt, repeat, [_scaled(x, factor) for x in r.rounds], 5.0, 0)
        for repeat, factor in ((0, 1), (1, 10), (2, 3))
        for r in runs
    ]
    found = summarise(slow, NGRAM)
    assert found.speedup == pytest.approx((80 / 6) / (57 / 5))  # a slow repeat slows both
    assert found.ms_per_token == pytest.approx(3 * 57 / 5)
    assert found.verify_ms == pytest.approx(3 * 17)


def _scaled(record, factor):
    times = (record.draft_ms, record.verify_ms, record.overhead_ms)
    return RoundRecord(
        record.proposed, record.accepted, record.emitted, *(factor * t for t in times)
    )


def test_rows_of_the_ledger(runs):
    rows = ledger.result_rows(runs)
    assert [(r["category"], r["name"]) for r in rows] == [
        (category, name) for category in ("copy", "chat", "all") for name in ("baseline", "ngram-2")
    ]
    copy, chat, both = rows[1], rows[3], rows[5]
    assert copy["ms_per_token"]["median"] == pytest.approx(27 / 4)
    assert copy["speedup"]["median"] == pytest.approx(10 / (27 / 4))
    assert copy["predicted_speedup"] == pytest.approx(2 * 10 / 13.5)
    assert copy["phase_ms"] == pytest.approx(
        {"draft": 1.0, "verify": 11.5, "overhead": 1.0, "total": 13.5}
    )
    assert chat["speedup"]["median"] == pytest.approx(20 / 30)
    assert chat["acceptance"]["survival"] == [] and chat["acceptance_length"] == 1
    quartiles = both["speedup"]
    low, high = 20 / 30, 10 / (27 / 4)
    assert quartiles["median"] == pytest.approx((low + high) / 2)
    assert quartiles["p25"] == pytest.approx(low + (high - low) / 4)
    assert both["num_tokens"] == 5 and both["num_runs"] == 2
    assert both["acceptance"]["survival"] == pytest.approx([1 / 3, 1 / 3])
    assert both["extra_memory_gb"] == 0.003
    assert not any(row["missing"] or row["warnings"] for row in rows)


def test_a_figure_that_was_not_measured_is_null_with_a_reason():
    row = ledger.result_rows([run(BASELINE, "p", 0, []), run(NGRAM, "p", 0, [])])[1]
    for key in ("ms_per_token", "speedup", "acceptance_length", "phase_ms", "predicted_speedup"):
        assert row[key] is None and "no round" in row["missing"][key]
    with pytest.raises(InputError, match="no round to time"):
        summarise([run(BASELINE, "p", 0, [])], BASELINE)


def test_a_speedup_above_tokens_per_round_is_flagged_by_prompt(runs):
    slow = run(BASELINE, "p", 0, [(0, 0, (0.0, 99.0, 1.0))] * 4)
    (warning,) = ledger.result_rows([slow, *runs[1:]])[5]["warnings"]  # all categories
    assert "on 1 prompts (copy/p 14.81 above 2.00)" in warning
    assert "baseline was slowed" in warning


def test_a_prompt_is_doubted_beyond_the_noise_only():
    drafted = run(NGRAM, "p", 0, [(1, 1, (0.0, 9.0, 1.0))] * 2)  # 2 tokens in 10 ms
    for target_only_ms, count in ((10.4, 0), (10.6, 1)):
        base = run(BASELINE, "p", 0, [(0, 0, (0.0, target_only_ms, 0.0))] * 4)
        assert len(ledger.result_rows([base, drafted])[1]["warnings"]) == count


def test_a_median_over_prompts_above_the_mean_of_rounds_is_no_fault():
    """Two short answers of 4 tokens a round, a long one of 1: the median gain is 4, rounds yield
    1.6 on average, and no prompt gained more than its own rounds gave."""
    found = []
    for prompt, accepted, count in (("p", 3, 1), ("q", 3, 1), ("r", 0, 8)):
        base = [(0, 0, (0.0, 10.0, 0.0))] * (count * (accepted + 1))
        found.append(run(BASELINE, prompt, 0, base))
        found.append(run(NGRAM, prompt, 0, [(3, accepted, (0.0, 10.0, 0.0))] * count))
    row = ledger.result_rows(found)[1]
    assert row["speedup"]["median"] == pytest.approx(4) and row["acceptance_length"] == 1.6
    assert row["warnings"] == []


def test_file_round_trip_and_errors(tmp_path, tiny):
    path = tmp_path / "deep" / "ledger.json"
    runs = run_interleaved(tiny, PROMPTS, method_specs(["ngram"], [2]), 1, 8, progress=False)
    built = ledger.build_ledger(tiny, runs, "python -m lessons.lib compare", {"seed": 0})
    ledger.write_ledger(built, path)
    assert ledger.read_ledger(path) == json.loads(path.read_text()) == built
    assert [p.name for p in path.parent.iterdir()] == ["ledger.json"]
    assert built["machine"]["device"] == "cpu" and built["versions"]["torch"] == torch.__version__
    assert built["commit"] or built["missing"]["commit"]
    for section in (built["machine"], built["versions"]):
        assert {k for k, v in section.items() if v is None} == set(section["missing"])

    for text, message in (
        ("{", "not valid JSON"),
        ("[]", "not a ledger"),
        ('{"schema": "x"}', "not a"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            ledger.read_ledger(path)
    del built["machine"]
    path.write_text(json.dumps(built))
    with pytest.raises(InputError, match="key 'machine' is missing"):
        ledger.read_ledger(path)
    with pytest.raises(InputError, match="cannot read"):
        ledger.read_ledger(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot write"):
        ledger.write_ledger(built, path / "below-a-file.json")


# --- with a tiny model -----------------------------------------------------------------------

PROMPTS = [Prompt("copy", "a", "<5> <6> <7> <5> <6>"), Prompt("chat", "b", "<9> <8>")]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = write_folder(reference_model("llama"), tmp_path_factory.mktemp("model"))
    return Engine(*load_model(folder, "float32", "cpu"))


def test_methods_take_turns_and_the_order_rotates(tiny):
    specs = method_specs(["none", "ngram"], [1, 3])
    assert [spec.name for spec in specs] == ["baseline", "ngram-1", "ngram-3"]
    runs = run_interleaved(tiny, PROMPTS, specs, 2, 6, progress=False)
    turns = [(r.repeat, r.prompt) for r in runs[::3]]
    assert turns == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert [r.spec.name for r in runs[::3]] == ["baseline", "ngram-1", "ngram-1", "ngram-3"]
    for start in range(0, 12, 3):
        assert {r.spec for r in runs[start : start + 3]} == set(specs)


def test_measure_methods(tiny):
    found = measure_methods(tiny, PROMPTS, (2, 4), max_new_tokens=30, progress=False)
    assert [m.name for m in found] == ["baseline", "ngram-2", "ngram-4"]
    assert found[0].conditional_acceptance == [] and found[0].extra_memory_gb == 0
    for measured in found:
        assert expected_tokens(measured.conditional_acceptance) == pytest.approx(
            measured.acceptance_length
        )
        assert all(0 <= p <= 1 for p in measured.conditional_acceptance)
        assert measured.ms_per_token > 0 and measured.verify_ms > measured.draft_ms >= 0


def test_what_cannot_be_measured(tiny):
    with pytest.raises(InputError, match="depths must be 1 or more, got 2, 0"):
        method_specs(["ngram"], [2, 0])
    with pytest.raises(InputError, match="unknown method 'x'"):
        method_specs(["x"], [2])
    with pytest.raises(InputError, match="at least one prompt"):
        measure_methods(tiny, [], progress=False)


def test_step_cost_has_an_entry_for_every_shape(tiny):
    cost = step_cost(tiny.model, (1, 3), (1, 5), context=32, repeats=2)
    assert set(cost) == {(1, 1), (1, 5), (3, 1), (3, 5)}
    assert all(ms > 0 for ms in cost.values())


def test_prompts_of_every_kind_and_split():
    assert [len(load_prompts(kinds=(kind,))) for kind in KINDS] == [8] * 5
    assert [p.kind for p in load_prompts("heldout", ("chat", "json"))] == ["chat"] * 4 + [
        "json"
    ] * 4
    with pytest.raises(InputError, match="unknown category 'poetry'; choose from maths"):
        load_prompts(kinds=("poetry",))
    with pytest.raises(InputError, match="unknown split 'test'"):
        load_prompts("test")


def test_plots_show_the_rows(runs):
    rows = ledger.result_rows(runs)
    (axes,) = plots.predicted_against_measured(rows).axes
    points = {c.get_label(): c.get_offsets().tolist()[0] for c in axes.collections}
    copy = rows[1]
    assert points["copy"] == pytest.approx([copy["speedup"]["median"], copy["predicted_speedup"]])
    assert set(points) == {"copy", "chat", "all"}
    (axes,) = plots.survival_curves(rows, "copy").axes
    assert [line.get_ydata().tolist() for line in axes.lines] == [[1.0, 0.5, 0.5]]
    (axes,) = plots.round_time_split(rows, "copy").axes
    assert [bar.get_height() for bar in axes.patches] == [0, 1, 9, 11.5, 1, 1]
    for figure in (
        plots.predicted_against_measured([]),
        plots.survival_curves([], "copy"),
        plots.round_time_split([], "copy"),
    ):
        figure.canvas.draw()
