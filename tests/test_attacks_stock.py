"""The comparison: a fair course on stock nbgrader, attacked in a sandbox of its own."""

import pytest

from autograder.attacks import compare, stock_course
from autograder.attacks.corpus import CHECKS, EARNED_BY_PLAIN, load

ATTACKS = {attack.id: attack for attack in load()}
QUIET = {
    "points": 0.0,
    "waits_for_person": False,
    "victim_harmed": False,
    "honest_points": 3.0,
    "hidden_tests_shown": False,
    "files_left": False,
    "left_process": False,
    "called_home": False,
}


def test_the_plain_course_grades_the_same_cells_for_the_same_points():
    nb = stock_course.source_notebook()
    graded = {
        cell.id: cell.metadata.nbgrader.points
        for cell in nb.cells
        if cell.metadata.nbgrader.grade and cell.cell_type == "code"
    }
    assert graded == CHECKS
    tests = [cell.source for cell in nb.cells if cell.id in CHECKS]
    assert all(text.count("### BEGIN HIDDEN TESTS") == 1 for text in tests)
    assert set(compare.NOT_ON_STOCK) <= set(ATTACKS)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, []),
        ({"points": 4.0}, ["earns 4 instead of 0"]),
        ({"victim_harmed": True}, ["changes another student's marks or files"]),
        ({"honest_points": None}, ["the next student is not graded"]),
        ({"honest_points": 0.0}, ["the next student's points change"]),
        ({"left_process": True, "files_left": True}, ["leaves files", "leaves a process"]),
    ],
)
def test_harm_in_words(found, words):
    assert compare.harm(QUIET | found, 0.0) == words


def test_an_attack_that_is_not_tried_does_no_harm():
    assert compare.harm(None, 0.0) == []


def test_marks_count_a_persons_first_and_a_missing_one_as_zero():
    marks = {"main": (2.0, 99.0, False), "boundary": (None, None, True), "q1": (None, 2.0, False)}
    assert compare.total(marks) == 99.0


@pytest.mark.slow
@pytest.mark.sandbox
def test_stock_nbgrader_falls_for_what_ours_does_not(tmp_path):
    stock = compare.Stock(tmp_path / "stock")
    assert stock.control("wrong") == EARNED_BY_PLAIN["wrong"]
    assert stock.control("right") == EARNED_BY_PLAIN["right"]
    full = stock.attack(ATTACKS["code/runs_no_code"])
    assert full and full["points"] == 4.0 and full["honest_points"] == 3.0
    stops = stock.attack(ATTACKS["notebook/copies_a_test"])
    assert stops and stops["honest_points"] is None
    marks = stock.attack(ATTACKS["code/sets_every_mark"])
    assert marks and marks["victim_harmed"]
