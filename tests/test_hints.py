"""Every verdict that is no pass leads to a place that exists in every language of the lesson."""

import re
from pathlib import Path

import pytest
from grader_case import fill_in, grade, submission
from nbformat.v4 import new_markdown_cell, new_notebook

from autograder import classview, hints, judge
from autograder.assignment import LANGUAGES, build_release
from autograder.passrule import Mark, Outcome
from autograder.preprocessors import verdict_output
from autograder.verdict import Verdict

ROOT = Path(__file__).parents[1]
SAID = re.compile(r"\"(hint-[\w-]+)\"")
SOURCES = [
    *(
        "autograder/checks/lesson08.py",
        "autograder/checks/race.py",
        "lessons/lib/checks/lesson08.py",
    ),
    *("autograder/speedup.py", "autograder/speed_decision.py"),
    *("autograder/hints.py", "lessons/lib/checks/asking.py"),
]


def hints_in_code():
    return {name for path in SOURCES for name in SAID.findall((ROOT / path).read_text("utf-8"))}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_lesson_8_has_an_anchor_for_every_hint_of_its_checks(lang):
    notebook = build_release("lesson08", lang)
    assert hints_in_code() == hints.anchors(notebook)
    assert {f"hint-{name}" for name in ("survival", "choice", "speed-bar")} <= hints_in_code()


@pytest.mark.parametrize("unit", judge.units())
def test_every_edition_of_a_unit_has_the_same_anchors(unit):
    english, chinese = (build_release(unit, lang) for lang in LANGUAGES)
    assert hints.anchors(english) == hints.anchors(chinese)


def places(notebook):
    return hints.anchors(notebook) | {cell.id for cell in notebook.cells}


@pytest.mark.parametrize(
    ("cost", "check", "hint"),
    [
        ("wrong/cost_sum_of_rates", "main", "hint-survival"),
        ("wrong/cost_most_tokens", "main", "hint-choice"),
        ("wrong/cost_one_blank_left", "main", "hint-run"),
        ("wrong/cost_clamps", "boundary", "boundary"),
        ("wrong/cost_most_tokens", "live", "hint-choice"),
    ],
)
def test_a_mistake_leads_to_its_advice(cost, check, hint):
    judgement = grade(submission(cost=fill_in(cost), q1="My answer."))
    assert judgement[check].hint == hint
    english, chinese = (places(build_release("lesson08", lang)) for lang in LANGUAGES)
    for verdict in judgement.checks:
        if verdict.verdict == "pass":
            assert verdict.hint == ""
        else:
            assert verdict.hint in english and verdict.hint in chinese
    assert judgement["q1"].hint == judgement["q2"].hint == "hint-written"


def test_a_hint_that_a_lesson_does_not_have_leads_to_the_check():
    notebook = new_notebook(cells=[new_markdown_cell('<a id="hint-run"></a>\n\n### Advice')])
    verdict = Verdict("main", 0.0, 1.0, "fail", "why", "hint-other")
    assert hints.fitting(verdict, notebook) == "main"
    assert hints.fitting(Verdict("m", 0.0, 1.0, "fail", "why", "hint-run"), notebook) == "hint-run"
    assert hints.fitting(Verdict("m", 1.0, 1.0, "pass", "why", "hint-run"), notebook) == ""


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_output_of_a_check_links_to_its_hint(lang):
    failed = verdict_output(Verdict("main", 0.0, 1.0, "fail", "why", "hint-run"), lang)
    assert f"[→ {hints.WORDS[lang]}](#hint-run)" in failed.data["text/markdown"]
    passed = verdict_output(Verdict("main", 1.0, 1.0, "pass", "why"), lang)
    assert "](#" not in passed.data["text/markdown"]


def test_the_report_counts_students_by_hint():
    def line(student, *marks):
        return Outcome(student, "fail", marks=list(marks))

    def lost(name, hint, reason):
        return Mark(name, 2.0, 0.0, "fail", reason=reason, hint=hint)

    lines = [
        line(
            "a", lost("main", "hint-run", "x (line 3 of your cell)"), lost("live", "hint-run", "x")
        ),
        line("b", lost("main", "hint-run", "y (line 9 of your cell)")),
        line("c", lost("main", "hint-run", "x (line 7 of your cell)")),
        line("d", lost("main", "hint-survival", "z"), Mark("live", 0.0, 0.0, "pass", reason="ok")),
        line("e", lost("old", "", "from before there were hints")),
    ]
    table = classview.by_hint(lines)
    assert table.values.tolist() == [
        [3, "hint-run", "x"],
        [1, "hint-survival", "z"],
        [1, "old", "from before there were hints"],
    ]
