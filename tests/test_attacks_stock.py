"""The comparison: a fair course on stock nbgrader, attacked in a sandbox of its own."""

import dataclasses
import json

import pytest

from autograder.attacks import compare, stock_course, table
from autograder.attacks.corpus import CHECKS, EARNED_BY_PLAIN, load
from autograder.attacks.pages import filled
from autograder.kept import Kept

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


def row(carries="wrong", ours=None, **found):
    stock = QUIET | found
    result = {"ok": not ours, "problems": ours or [], "got": "0 points: fail"}
    return {"id": "code/x", "what": "a|b", "carries": carries, "stock": stock, "ours": result}


PLAIN = {"wrong": 0.0, "right": 3.0}


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (row(), []),
        (row(points=4.0), ["gains"]),
        (row("right", points=3.0), []),
        (row("right", points=1.0), ["loses"]),
        (row("own", points=0.2), []),
        (row(victim_harmed=True), ["others"]),
        (row(honest_points=None), ["next"]),
        (row(honest_points=0.0, called_home=True), ["next", "network"]),
        (row(left_process=True, files_left=True), ["left"]),
        (row(waits_for_person=True), ["person"]),
    ],
)
def test_harm_on_stock(found, names):
    assert list(table.harms({"plain_on_stock": PLAIN}, found)) == names


def test_the_tables_count_what_was_tried_on_both():
    rows = [
        row(points=4.0),
        row(),
        row(ours=["network: False became True"]),
        row() | {"stock": None},
    ]
    report = {"plain_on_stock": PLAIN, "rows": rows}
    assert "| earns points that it did not earn | 1 / 3 | 0 / 3 |" in table.counts(report, "en")
    assert "| 连上网络 | 0 / 3 | 1 / 3 |" in table.counts(report, "zh")
    rows[2]["ours"] = {"ok": True, "problems": [], "got": "0 points: unreadable"}
    assert "| stays ungraded until a person looks | 0 / 3 | 1 / 3 |" in table.counts(report, "en")
    (line,) = table.details(report).splitlines()[2:]
    assert "a&#124;b | 4 of 4 points, 0 deserved | 0 points: fail |" in line


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_instructors_page_holds_the_measured_tables(lang):
    report = json.loads(table.RESULTS.read_text(encoding="utf-8"))
    page = table.PAGES[lang].read_text(encoding="utf-8")
    assert filled(page, table.parts(lang)) == page, "run: python -m autograder.attacks.table"
    assert table.counts(report, lang) in page
    assert {row["id"] for row in report["rows"]} == set(ATTACKS)
    assert {row["id"] for row in report["rows"] if not row["stock"]} == set(compare.NOT_ON_STOCK)
    assert all(row["ours"]["ok"] for row in report["rows"])


def test_a_page_that_is_behind_is_brought_up_to_date_and_a_lost_mark_is_named():
    parts, page = table.parts("en"), table.PAGES["en"].read_text(encoding="utf-8")
    behind = page.replace("| 0 / ", "| 7 / ")
    assert behind != page and filled(behind, parts) == page
    with pytest.raises(ValueError, match="marks for details"):
        filled(page.replace("<!-- end details -->", ""), parts)


def test_a_stopped_comparison_goes_on(tmp_path):
    """What was tried is not tried again, but for an attack whose text has changed since."""
    attack, other = ATTACKS["code/abs_is_zero"], ATTACKS["code/warns"]
    fresh, tired = FakeStock({"points": 2.0}), FakeStock(None)
    compare.try_once(Kept(tmp_path / "out"), fresh, attack)
    kept = Kept(tmp_path / "out")
    assert compare.try_once(kept, tired, attack) == {"points": 2.0} and not tired.tried
    assert compare.try_once(kept, tired, other) is None and tired.tried == [other.id]
    changed = tmp_path / "abs_is_zero.py"
    changed.write_text(f"{attack.text}\nx = 1\n")
    compare.try_once(kept, tired, dataclasses.replace(attack, path=changed))
    assert tired.tried == [other.id, attack.id]


class FakeStock:
    def __init__(self, result):
        self.result, self.tried = result, []

    def attack(self, attack):
        self.tried.append(attack.id)
        return self.result


def test_a_line_that_was_cut_off_does_not_count(tmp_path):
    Kept(tmp_path / "out").or_now("a", lambda: 1)
    part = tmp_path / "out.part"
    part.write_text(f'{part.read_text()}["bcd')
    kept = Kept(tmp_path / "out")
    assert kept.or_now("a", lambda: 2) == 1
    kept.done()
    assert not part.exists() and Kept(tmp_path / "out").or_now("a", lambda: 2) == 2


def test_rows_measured_again_take_their_old_places():
    old = {
        "note": "Before.",
        "rows": [row() | {"id": "code/calls_home"}, row() | {"id": "code/warns"}],
    }
    new = {"date": "2030-01-01", "commit": "abc", "rows": [row(points=1.0) | {"id": "code/warns"}]}
    found = compare.joined(old, new)
    assert [r["id"] for r in found["rows"]] == ["code/calls_home", "code/warns"]
    assert found["rows"][1]["stock"]["points"] == 1.0
    assert found["note"] == "Before. code/warns: measured on 2030-01-01 at commit abc."


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
