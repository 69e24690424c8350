"""The pass rule as a table: marks in, pass, fail or waiting out."""

import pytest

from autograder import rubric
from autograder.passrule import Mark, decide

UNIT = "lesson08"
BEST = {"main": 2, "boundary": 1, "source_map": 1, "live": 0, "q1": 2, "q2": 2, "q3": 2}


def marks(comments=None, person=(), verdicts=None, **scores):
    """A full house, changed by keyword; None is an open mark."""
    verdicts, comments = verdicts or {}, comments or {}
    found = []
    for name, points in BEST.items():
        score = scores.get(name, points)
        is_manual = name[0] == "q"
        machine = "not_measured" if is_manual else "pass" if score == points else "fail"
        by_person = (is_manual and score is not None) or name in person
        verdict = verdicts.get(name, machine)
        found.append(Mark(name, points, score, verdict, by_person, comments.get(name, "")))
    return found


@pytest.mark.parametrize(
    ("given", "result", "why"),
    [
        (marks(), "pass", []),
        (marks(q1=1, q2=1), "pass", []),
        (marks(q1=1, q2=1, q3=1), "fail", ["at most 7 of 10 points"]),
        (marks(source_map=0, q1=1), "pass", []),
        (marks(main=0), "fail", ["main failed"]),
        (marks(boundary=0), "fail", ["boundary failed"]),
        (marks(verdicts={"live": "fail"}), "fail", ["live failed"]),
        (marks(verdicts={"live": "invalid"}), "fail", ["live invalid"]),
        (marks(q2=0), "fail", ["q2 without points"]),
        (marks(q1=None), "waiting", ["q1 ungraded"]),
        (marks(q1=None, q2=None, q3=None), "waiting", ["q1, q2, q3 ungraded"]),
        (marks(q1=None, q2=0), "fail", ["q2 without points"]),
        (marks(main=1.9), "fail", ["main failed"]),
        (marks(live=None, verdicts={"live": "not_measured"}), "waiting", ["live not measured"]),
        (marks(main=None, verdicts={"main": "inconclusive"}), "waiting", ["main inconclusive"]),
        (marks(verdicts={"live": "not_measured"}, person=["live"]), "pass", []),
        (marks(verdicts={"main": "fail"}, person=["main"]), "pass", []),
        (
            marks(main=1, verdicts={"main": "inconclusive"}, person=["main"]),
            "fail",
            ["main failed"],
        ),
        (marks(verdicts={"live": "fail"}, person=["live"]), "fail", ["live failed"]),
        (
            marks(comments={"q3": "Good.\nVETO code_as_support"}),
            "fail",
            ["q3 vetoed (code_as_support)"],
        ),
        (
            marks(comments={"q3": "VETO typo"}),
            "waiting",
            ["q3 vetoed by 'typo', which the rubric does not know"],
        ),
        (marks(comments={"q1": "no veto: peak_as_general was discussed"}), "pass", []),
        (marks(source_map=0, q1=None, q2=1, q3=1), "fail", ["at most 7 of 10 points"]),
        (marks(q1=None, q2=None, q3=None, source_map=0), "waiting", ["q1, q2, q3 ungraded"]),
    ],
)
def test_pass_rule(given, result, why):
    outcome = decide("amy", given, rubric.read_rubric(UNIT))
    assert (outcome.result, outcome.why) == (result, why)


def test_an_unknown_question_and_a_missing_rubric_are_named(tmp_path):
    with pytest.raises(rubric.RubricError, match="no entry for the question 'q9'"):
        rubric.for_instructor(UNIT, "q9", "en", "")
    with pytest.raises(rubric.RubricError, match="missing"):
        rubric.read_rubric("lesson77", tmp_path)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_instructors_cell_is_in_the_classrooms_language(lang):
    data = rubric.read_rubric(UNIT)
    text = rubric.for_instructor(UNIT, "q1", lang, "the reference")
    for criterion in data["questions"]["q1"]["criteria"].values():
        assert criterion[lang].strip() in text
    for veto in data["vetoes"]:
        assert f"`VETO {veto['id']}`" in text and veto[lang] in text
    assert text.endswith("the reference")
