"""Every wrong fill-in is rejected and every right one gets full points, whatever the seed."""

import pytest
from grader_case import CELL_OF, COST, FIGURES, LIMITS, MAP, MUTANTS, UNIT, fill_in, release

from autograder.judge import cells_to_run, run_checks
from autograder.sandbox.session import Sandbox

CHECKS_OF = {"cost": ("main", "boundary"), "map": ("source_map",)}
WRONG = sorted(path.stem for path in (MUTANTS / "wrong").glob("*.py"))
RIGHT = sorted(path.stem for path in (MUTANTS / "right").glob("*.py"))


def judged(name, seeds):
    """The verdicts by check of one fill-in, for each seed, on one start of the worker."""
    texts = {COST: fill_in("right/cost_horner"), MAP: fill_in("right/map_vllm")}
    texts[CELL_OF[name.split("/")[1].split("_")[0]]] = fill_in(name)
    notebook = release()
    for cell in notebook.cells:
        cell.source = texts.get(cell.get("id"), cell.source)
    with Sandbox(LIMITS) as box:
        box.run_cells(cells_to_run(notebook, release()))
        for seed in seeds:
            verdicts = run_checks(box, UNIT, notebook, seed, lambda: FIGURES)
            yield {verdict.id: verdict for verdict in verdicts}


def assert_rejected(name, seeds):
    for verdicts in judged(f"wrong/{name}", seeds):
        mine = [verdicts[check] for check in CHECKS_OF[name.split("_")[0]]]
        bad = [v for v in mine if v.verdict in ("fail", "invalid")]
        assert bad and all(v.points < v.max and v.reason for v in bad)


def assert_accepted(name, seeds):
    for verdicts in judged(f"right/{name}", seeds):
        assert {v.verdict for v in verdicts.values()} == {"pass"}, verdicts


def test_there_are_enough_and_each_says_what_it_is():
    assert sum(name.startswith("cost_") for name in WRONG) >= 25
    assert sum(name.startswith("cost_") for name in RIGHT) >= 8
    texts = [fill_in(f"wrong/{n}") for n in WRONG] + [fill_in(f"right/{n}") for n in RIGHT]
    assert all(text.startswith("# ") for text in texts)
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_is_rejected(name):
    assert_rejected(name, (1, 2, 3))


@pytest.mark.parametrize("name", RIGHT)
def test_right_gets_full_points(name):
    assert_accepted(name, (1, 2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_wrong_is_rejected_over_many_seeds(name):
    assert_rejected(name, range(100, 150))


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_right_gets_full_points_over_many_seeds(name):
    assert_accepted(name, range(100, 150))


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("cost_sum_of_rates", "main", "survival of all positions before it"),
        ("cost_no_bonus", "main", "the token that the target adds"),
        ("cost_last_position_only", "main", "only the survival of the last position"),
        ("cost_added_before_update", "main", "before it is updated"),
        ("cost_mean_power", "main", "power of their mean"),
        ("cost_budget_exclusive", "main", "exactly the memory budget"),
        ("cost_ignores_budget", "main", "more memory than the budget"),
        ("cost_must_speculate", "main", "when no method beats the baseline"),
        ("cost_stops_at_first_misfit", "main", "must not end the search"),
        ("cost_first_that_wins", "main", "not the first good one"),
        ("cost_forgets_overhead", "main", "the overhead belongs"),
        ("cost_forgets_draft", "main", "the draft time belongs"),
        ("cost_wrong_speedup", "main", "the speedup is not"),
        ("cost_one_blank_left", "main", "the blank in cell acceptance_cost_model is not filled in"),
        ("cost_prints_only", "main", "is a return missing?"),
        ("cost_accepts_nan", "boundary", "nan"),
        ("cost_refuses_the_ends", "main", "raised ValueError"),
        ("cost_equal_wins", "boundary", "exactly as fast as the baseline"),
        ("cost_sorts_methods", "boundary", "changes the methods"),
        ("cost_remembers_calls", "main", "too"),
        ("cost_lists_only", "boundary", "raised AttributeError"),
        ("map_key_missing", "source_map", "5 of 6 right; missing: kv_rollback"),
        ("map_swapped", "source_map", "not right: draft_ms, verify_ms"),
        ("map_all_at_once", "source_map", "0 of 6 right; not one name: "),
    ],
)
def test_the_reason_says_what_to_mend(name, check, words):
    (verdicts,) = judged(f"wrong/{name}", (5,))
    assert words in verdicts[check].reason


def test_partial_points_of_the_source_map():
    (verdicts,) = judged("wrong/map_invented_rollback", (5,))
    assert verdicts["source_map"].verdict == "fail"
    assert verdicts["source_map"].points == pytest.approx(5 / 6, abs=1e-3)
