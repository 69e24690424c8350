"""Every unit's exercise: answers pass, the blank fails with a clear message, points add up."""

import re

import pytest
from unit_kit import FORMED, LANGUAGES, UNITS, cells, lesson, rubric, run, solution

from autograder.judge import checks_of, slow_checks
from lessons.lib.checks.public import checks_of as public_checks_of

units = pytest.mark.parametrize("unit", UNITS)
formed = pytest.mark.parametrize("unit", FORMED)
languages = pytest.mark.parametrize("lang", LANGUAGES)
FROM_A_LEDGER = re.compile(r"<!-- measured.*?<!-- /measured -->", re.DOTALL)  # as long as it is


def setup(unit):
    return [cell.source for cell in cells(unit, "setup")]


def answers(unit, lang="en"):
    return [cell.source for cell in solution(unit, lang).cells]


def quick_checks(unit):
    return [c for c in cells(unit, "check") if c.label not in slow_checks(unit) | {"live"}]


@units
@languages
def test_the_answers_pass_every_preview(unit, lang):
    checks = [cell.source for cell in quick_checks(unit)]
    assert checks
    run(*setup(unit), *answers(unit, lang), *checks)


@units
def test_the_untouched_blank_fails_every_preview_with_one_clear_message(unit):
    blanks = [cell.source for cell in cells(unit, "exercise")]
    for check in quick_checks(unit):
        with pytest.raises(AssertionError, match="the blank in cell .* is not filled in"):
            run(*setup(unit), *blanks, check.source)


@units
def test_the_blank_is_five_to_twenty_five_lines_away(unit):
    """Counted in lines of the solution that the released cell does not have."""
    blank = {line.strip() for cell in cells(unit, "exercise") for line in cell.source.splitlines()}
    filled = [line.strip() for text in answers(unit) for line in text.splitlines()]
    new = [line for line in filled if line and line not in blank and not line.startswith("#")]
    assert 5 <= len(new) <= 25, new


@units
def test_check_cells_and_checks_have_the_same_names(unit):
    assert {cell.label for cell in cells(unit, "check")} == set(checks_of(unit).CHECKS)


@units
def test_every_check_of_a_notebook_but_live_is_the_graders_on_public_inputs(unit):
    """One code path: the cell names the check, and the check lies where both can import it."""
    public = list(public_checks_of(unit).CHECKS)
    assert public == [check for check in checks_of(unit).CHECKS if check != "live"]
    for cell in cells(unit, "check"):
        call = f'public_check("{unit}", "{cell.label}", globals())'
        assert (call in cell.source) == (cell.label in public), cell.label
    everything = [cell for cell in cells(unit, "practice") if cell.label == "all_checks"]
    assert [f'public_checks("{unit}", globals())' in cell.source for cell in everything] == [True]


@units
def test_all_public_checks_are_counted(unit):
    everything = next(cell for cell in cells(unit, "practice") if cell.label == "all_checks")
    number = len(public_checks_of(unit).CHECKS)
    _, said = run(*setup(unit), *answers(unit), everything.source)
    assert said.endswith(f"public checks {number} of {number}; the graded ones draw other inputs\n")


@formed
def test_the_exercise_states_its_contract(unit):
    for cell in cells(unit, "exercise"):
        assert '"""' in cell.source and "Raises" in cell.source, cell.label
        assert "______" in cell.source


@units
def test_the_setup_shows_the_sandbox_no_course_library(unit):
    """What the grader's worker imports, a submission can call instead of answering."""
    assert not any("lessons" in text or "kernels" in text for text in setup(unit))


@units
def test_the_rubric_has_ten_points_and_agrees_with_the_lesson(unit):
    found = rubric(unit)
    checks = {c.label: c.metadata["points"] for c in cells(unit, "check")}
    written = {answer.label: answer.points for answer in lesson(unit).answers}
    assert found["unit"] == unit and found["code"] == checks
    assert {key: q["points"] for key, q in found["questions"].items()} == written
    assert sum(checks.values()) + sum(written.values()) == found["total"] == 10
    rule = found["pass_rule"]
    assert rule["min_total"] == 8 and set(rule["required_checks"]) <= set(checks)
    assert set(rule["manual_above_zero"]) == set(written)


@units
def test_the_rubric_is_complete_in_both_languages(unit):
    for question in rubric(unit)["questions"].values():
        assert set(question["criteria"]) == {"object", "state_change", "chain"}
        for text in (question["title"], *question["criteria"].values()):
            assert set(text) == {"en", "zh"} and all(text.values())
    vetoes = rubric(unit)["vetoes"]
    assert vetoes and all(veto["id"] and veto["en"] and veto["zh"] for veto in vetoes)


@units
@languages
def test_the_reference_answers_are_of_readable_length(unit, lang):
    for answer in solution(unit, lang).answers:
        own = FROM_A_LEDGER.sub("", answer.body)
        size = len(own.split()) if lang == "en" else len(own)
        low, high = (100, 320) if lang == "en" else (180, 900)
        assert low <= size <= high, f"{answer.label}: {size}"
