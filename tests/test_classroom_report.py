"""The class as a whole: how the checks went, what failed most often, who waits for what."""

import csv
from dataclasses import replace

import pytest
from classroom_kit import UNIT

from autograder import classview, report, rubric
from autograder.classroom import Classroom
from autograder.passrule import Mark, decide, nothing_yet

RUBRIC = rubric.read_rubric(UNIT)
POINTS = {"main": 2.0, "boundary": 1.0, "source_map": 1.0, "live": 0.0, "q1": 2, "q2": 2, "q3": 2}


def line(student, why="because", seed=1, **changed):
    """A student with full marks everywhere but where (verdict, score) are given."""
    marks = []
    for name, points in POINTS.items():
        verdict, score = changed.get(name, ("pass" if name[0] != "q" else "not_measured", points))
        by_person = name[0] == "q" and score is not None
        marks.append(Mark(name, points, score, verdict, by_person, "", why))
    return replace(decide(student, marks, RUBRIC), seed=seed)


@pytest.fixture
def lines():
    return [
        line("amy"),
        line("ben", "no nan; no inf (line 3 of your cell)", boundary=("fail", 0.0)),
        line("cho", "no inf (line 9 of your cell)", boundary=("fail", 0.0), q1=("", None)),
        line("dee", "5 of 6 right", source_map=("fail", 0.8333), q1=("", None), q2=("", None)),
        line("eli", "no GPU", live=("not_measured", None)),
        nothing_yet("<b>fay", "not submitted"),
    ]


def test_each_check_is_counted_and_open_is_neither_zero_nor_full(lines):
    counts = classview.distribution(lines)
    assert list(counts.columns) == ["full", "part", "none", "open"]
    assert list(counts.loc["boundary"]) == [3, 0, 2, 0]
    assert list(counts.loc["source_map"]) == [4, 1, 0, 0]
    assert list(counts.loc["live"]) == [4, 0, 0, 1]
    assert list(counts.loc["q1"]) == [3, 0, 0, 2]


def test_the_commonest_failure_comes_first_and_lines_do_not_tell_it_apart(lines):
    found = classview.failures(lines)
    assert list(found.iloc[0]) == [2, "boundary", "fail", "no inf"]
    assert {tuple(row) for row in found.values[1:]} == {
        (1, "boundary", "fail", "no nan"),
        (1, "source_map", "fail", "5 of 6 right"),
    }


def test_who_waits_for_what_even_of_those_who_have_failed(lines):
    found = classview.waiting(lines)
    assert list(found.iloc[0]) == [2, "q1 ungraded", "cho, dee"]
    assert [1, "live not measured", "eli"] in found.values.tolist()
    assert [1, "not submitted", "<b>fay"] in found.values.tolist()
    assert lines[2].result == "fail" and lines[2].awaits == ["q1 ungraded"]


def test_a_long_list_of_names_is_cut():
    assert classview.listed(list("abcdefghijklmnop")).endswith("k, l and 4 more")


def test_the_page_has_the_picture_and_escapes_names(lines):
    text = report.section(UNIT, lines, report.table(UNIT, lines))
    assert "<svg" in text and "points of 10 (2 without open marks)" in text
    assert "&lt;b&gt;fay" in text and "<b>fay" not in text
    assert text == report.section(UNIT, lines, report.table(UNIT, lines))


def test_no_name_becomes_a_formula_in_the_csv(tmp_path, monkeypatch):
    room = Classroom(tmp_path, "en")
    (tmp_path / "release" / "lesson08").mkdir(parents=True)
    (tmp_path / "release" / "lesson08" / "lesson08.ipynb").touch()
    monkeypatch.setattr(report, "outcomes", lambda *_: [nothing_yet("=1+1", "not submitted")])
    report.write_report(room)
    with (tmp_path / "report.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert line["student"] == "'=1+1" and line["points"] == "–"


def test_a_class_without_marks_has_no_picture_and_says_none():
    lines = [nothing_yet("amy", "not submitted")]
    text = report.section(UNIT, lines, report.table(UNIT, lines))
    assert "<svg" not in text and "<p>none</p>" in text


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        ([1, 1], ""),
        ([0, 1], ""),
        ([2, 2], "seed 2: 2.</p>"),
        ([1, 2], "seed 1: 1, seed 2: 1. Run make autograde"),
    ],
)
def test_a_changed_seed_is_said(seeds, words):
    note = report.seed_note([line("amy", seed=seed) for seed in seeds])
    assert words in note and bool(note) == bool(words)


def test_the_bands_of_a_check_worth_nothing_go_by_its_verdict():
    assert [classview.band(0.0, 0.0, name) for name in ("pass", "fail")] == ["full", "none"]
    assert classview.distribution([]).empty
