"""The comparison with stock nbgrader: the same answers, and ratios within one turn."""

import pytest
from classroom_kit import code_answers

from autograder import throughput


def test_stock_gets_the_same_answers_and_no_cell_that_runs_the_model():
    handed_in = throughput.submissions(6)
    assert len(handed_in) == 6
    stock = throughput.with_plain_tests(handed_in["s000"])
    sources = {cell.id: cell.source for cell in stock.cells}
    assert code_answers().items() <= sources.items()
    assert {"main", "boundary", "source_map", "q1"} <= sources.keys()
    assert not {"live", "measure", "load_engine"} & sources.keys()
    assert handed_in["s003"] != handed_in["s000"] == handed_in["s005"]


def test_ratios_are_within_a_turn():
    stock = {"name": "stock", "wall_s": [40.0, 80.0, 60.0]}
    ours = {"name": "ours", "wall_s": [20.0, 20.0, 30.0]}
    _, row = throughput.summary([stock, ours], 10)
    assert row["throughput_vs_stock"]["median"] == 2.0
    assert row["s_per_submission"]["median"] == 2.0
    assert stock["throughput_vs_stock"]["median"] == 1.0


def test_a_run_that_fails_gives_no_time(tmp_path):
    with pytest.raises(throughput.ThroughputError, match="failed"):
        throughput.run([throughput.sys.executable, "-c", "raise SystemExit(3)"], tmp_path, {})
