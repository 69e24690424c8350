"""Lesson 8's exercise keeps its contract, its answers pass, and its arithmetic is right."""

import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from unit_kit import run

from course.render.qmd import parse

ROOT = Path(__file__).parents[1]
LESSON = parse(ROOT / "lessons/lesson08_modern_speculative_systems.qmd")
ANSWERS = {
    lang: parse(ROOT / f"solutions/lesson08/answers{suffix}.qmd")
    for lang, suffix in (("en", ""), ("zh", ".zh"))
}
RUBRIC = yaml.safe_load((ROOT / "solutions/lesson08/rubric.yml").read_text(encoding="utf-8"))
LANGUAGES = pytest.mark.parametrize("lang", ["en", "zh"])

CONTRACT = """\
def expected_tokens_per_round(conditional_acceptance):
    survival = 1.0
    expected_accepted = 0.0
    for probability in conditional_acceptance:
        if not 0.0 <= probability <= 1.0:
            raise ValueError("acceptance probability out of range")
        # TODO: token i is accepted only if every token before it survived.
        survival = ______
        expected_accepted += ______
    return 1.0 + expected_accepted  # replacement/bonus token

def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    best = ("baseline", 1.0)
    for method in methods:
        if method["extra_memory_gb"] > memory_budget_gb:
            continue
        produced = expected_tokens_per_round(method["conditional_acceptance"])
        round_ms = method["draft_ms"] + method["verify_ms"] + method["overhead_ms"]
        speedup = produced * baseline_ms_per_token / round_ms
        if speedup > best[1]:
            best = (method["name"], speedup)
    return best
"""


def lesson_cell(label: str) -> Any:
    return next(cell for cell in LESSON.cells if cell.label == label)


def answer_cell(label: str, lang: str) -> str:
    return next(cell.source for cell in ANSWERS[lang].cells if cell.label == label)


def test_the_exercise_is_the_contract_word_for_word():
    source = lesson_cell("acceptance_cost_model").source
    assert source.rstrip() == CONTRACT.rstrip()
    assert source.count("______") == 2


@LANGUAGES
def test_the_answer_changes_the_blanks_only(lang):
    blank, filled = CONTRACT.splitlines(), answer_cell("acceptance_cost_model", lang).splitlines()
    changed = [a for a, b in zip(blank, filled, strict=True) if a != b]
    assert changed == ["        survival = ______", "        expected_accepted += ______"]


@pytest.mark.parametrize(
    ("label", "wrong"),
    [
        ("main", CONTRACT.replace("______", "probability")),
        ("boundary", CONTRACT.replace("0.0 <= probability <= 1.0", "0.0 <= probability")),
        ("source_map", None),
    ],
)
def test_each_preview_can_fail(label, wrong):
    source = wrong or lesson_cell("source_objects").source
    with pytest.raises(AssertionError):
        run(source.replace("______", "probability") if wrong else source, lesson_cell(label).source)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_the_answer_is_the_sum_of_survivals(conditional):
    namespace, _ = run(answer_cell("acceptance_cost_model", "en"))
    survivals = [math.prod(conditional[: k + 1]) for k in range(len(conditional))]
    expected = 1 + math.fsum(survivals)
    assert math.isclose(namespace["expected_tokens_per_round"](conditional), expected)


def test_the_worked_example_prints_what_the_text_says():
    _, printed = run(lesson_cell("setup").source, lesson_cell("worked_example").source)
    for figure in ("0.80 0.56 0.28", "2.64", "26.4 / 11.0 ms = 2.40x", "26.4 / 12.5 ms = 2.11x"):
        assert figure in printed


def test_the_tree_and_ridge_figures_of_the_text():
    assert 3**3 == 27 and sum(3**depth for depth in range(4)) == 40
    assert round(989e12 / 4.8e12) == 206


def test_the_vetoes_are_the_seeds():
    assert [veto["id"] for veto in RUBRIC["vetoes"]] == [
        "peak_as_general",
        "code_as_support",
        "correctness_vs_speed",
        "names_without_ownership",
    ]
