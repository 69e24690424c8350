"""`compare-all` on a tiny model: its ledger, and that it goes on where it stopped."""

import pytest

from kernels.runtime import InputError
from lessons.lib.bench import compare_all, compare_plan
from lessons.lib.bench.compare_report import report
from lessons.lib.bench.run import MethodSpec
from lessons.lib.cli import main
from tests.batch_kit import tiny_engine


@pytest.fixture
def small(monkeypatch):
    """Methods that need no weights, and stages of a few tokens."""
    for name, value in {
        "METHODS": ("ngram",),
        "CHAINS": ("ngram",),
        "CONTROLLED": ("ngram",),
        "TREES": (MethodSpec("ngram-tree", 4),),
        "PLANNED": MethodSpec("ngram-tree", 3),
        "LOOKUP_DEPTHS": (2, 4),
    }.items():
        monkeypatch.setattr(compare_plan, name, value)
    return compare_all.shortened(compare_plan.STAGES, 1, 6)[:3]


def measure(stages, path, kinds=("copy",)):
    ledger = compare_all.open_ledger(path, "cpu", "compare-all", {"seed": 0})
    compare_all.measure(tiny_engine(), ledger, path, stages, kinds, progress=False)
    return ledger


def test_a_ledger_holds_each_point_once_and_tells_what_it_is(small, tmp_path):
    path = tmp_path / "ledger.json"
    ledger = measure(small, path)
    assert [(p["stage"], p["kind"]) for p in ledger["points"]] == [
        ("depths", "copy"),
        ("temperature", "copy"),
        ("batch-4", "copy"),
    ]
    for point in ledger["points"]:
        rows = [row for row in ledger["results"] if row["stage"] == point["stage"]]
        assert [row["name"] for row in rows] == point["methods"]
        assert all(row["speedup"]["median"] > 0 and row["warnings"] is not None for row in rows)
    batch = [row for row in ledger["results"] if row["stage"] == "batch-4"]
    assert {(row["batch"], row["temperature"], row["num_runs"]) for row in batch} == {(4, 0.0, 1)}
    assert all(sum(row["shares"].values()) == pytest.approx(1) for row in batch)
    tree = next(row for row in ledger["results"] if row["name"] == "ngram-tree-4")
    assert tree["forecast_speedup"] is None and "tree" in tree["missing"]["forecast_speedup"]
    assert set(ledger["not_crossed"]) and "peak_memory_gb" in ledger["missing"]
    assert "adaptive never below" in report(ledger)


def test_it_goes_on_after_a_stop(small, tmp_path, monkeypatch):
    path, asked = tmp_path / "ledger.json", []
    run = compare_all.run_interleaved

    def stop(engine, prompts, *arguments, **settings):
        asked.append(prompts[0].kind)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return run(engine, prompts, *arguments, **settings)

    monkeypatch.setattr(compare_all, "run_interleaved", stop)
    with pytest.raises(KeyboardInterrupt):
        measure(small[:1], path, ("copy", "chat"))
    measured = compare_all.read_ledger(path)
    assert [point["kind"] for point in measured["points"]] == ["copy"]
    ledger = measure(small[:1], path, ("copy", "chat"))
    assert asked == ["copy", "chat", "chat"]
    assert ledger["results"][: len(measured["results"])] == measured["results"]
    assert ledger["profile"] == measured["profile"]


def test_figures_of_other_conditions_do_not_meet(small, tmp_path):
    path = tmp_path / "ledger.json"
    measure(small[:1], path)
    with pytest.raises(InputError, match="was measured with other settings"):
        compare_all.open_ledger(path, "cpu", "compare-all", {"seed": 1})


def test_stages_follow_the_sweep(small, tmp_path):
    with pytest.raises(InputError, match="no depth was swept; measure the stage 'depths' first"):
        measure(small[2:], tmp_path / "ledger.json")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["compare-all", "--stages", "batch-2", "--json", "x"], "unknown stage 'batch-2'"),
        (["compare-all", "--kinds", "poetry", "--json", "x"], "unknown category 'poetry'"),
        (["compare-report", "no/such.json"], "cannot read no/such.json"),
        (["compare-report", "course/results/engine_cpu.json"], "not a ledger of schema"),
        (["compare", "--methods", "ngram", "--pacing", "compact", "--json", "x"], "--pacing plans"),
        (["compare", "--pacing", "fast", "--json", "x"], "invalid choice: 'fast'"),
    ],
)
def test_bad_arguments_are_one_line(capsys, arguments, message):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error


def test_more_prompts_than_there_are():
    with pytest.raises(InputError, match="65 prompts of copy: there are 1 to 64"):
        compare_plan.held_out_prompts("copy", 65)
