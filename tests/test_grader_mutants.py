"""What a wrong fill-in of Lesson 8 is told, and how many there are; see test_units_fill_ins.py."""

import pytest
from grader_case import FIGURES, LIMITS, UNIT, fill_in

from autograder.fill_ins import fill_ins, judged


def verdicts_on(name):
    """The verdicts by check of one fill-in, the rest being right."""
    (verdicts,) = judged(UNIT, fill_in(name), (5,), LIMITS, lambda: FIGURES)
    return {verdict.id: verdict for verdict in verdicts}


def test_there_are_enough():
    names = [item.name for item in fill_ins(UNIT)]
    assert sum(name.startswith("wrong/cost_") for name in names) >= 25
    assert sum(name.startswith("right/cost_") for name in names) >= 8


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
    assert words in verdicts_on(f"wrong/{name}")[check].reason


def test_partial_points_of_the_source_map():
    verdict = verdicts_on("wrong/map_invented_rollback")["source_map"]
    assert verdict.verdict == "fail" and verdict.points == pytest.approx(5 / 6, abs=1e-3)
