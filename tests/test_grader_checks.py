"""The trusted side: the grader's own model, its inputs, the source map, the measured figures."""

import dataclasses
import random

import pytest
from grader_case import FIGURES, LIMITS, UNIT, fill_in, grade, submission

from autograder.checks import figures, source_map
from autograder.checks.figures import FiguresError
from autograder.judge import judge
from lessons.lib.checks import cost_model, lesson08, source_names
from lessons.lib.checks.asking import Rejected, a_type

# The cost model


def test_the_reference_agrees_with_the_lessons_arithmetic():
    assert cost_model.expected_tokens([0.8, 0.7, 0.5]) == pytest.approx(2.64, abs=1e-12)
    assert cost_model.expected_tokens([]) == 1.0
    name, speedup = cost_model.choose(lesson08.EXAMPLE_METHODS, 10.0, 8)
    assert (name, speedup) == ("block", pytest.approx(27.0625 / 11.0))
    assert cost_model.choose(lesson08.EXAMPLE_METHODS, 10.0, 4)[0] == "tree"
    assert cost_model.choose(lesson08.EXAMPLE_METHODS, 2.0, 5) == ("baseline", 1.0)


@pytest.mark.parametrize("purpose", cost_model.PURPOSES)
def test_tables_serve_their_purpose_and_leave_no_tie(purpose):
    rng = random.Random(4)
    for _ in range(50):
        table = cost_model.random_table(rng, purpose)
        assert cost_model.is_clear(*table.arguments)
        assert len({m["name"] for m in table.methods}) == len(table.methods)
        name, speedup = cost_model.choose(*table.arguments)
        chosen = [m for m in table.methods if m["name"] == name]
        if purpose == "none_faster":
            assert (name, speedup) == ("baseline", 1.0)
        if purpose == "at_budget":
            assert chosen[0]["extra_memory_gb"] == table.budget_gb
        if purpose == "over_budget":
            free = cost_model.choose(table.methods, table.baseline_ms, 1e9)
            assert free[0] != name


def test_the_formulas_of_the_diagnosis_are_all_wrong_and_all_different():
    rng = random.Random(1)
    rates = [cost_model.random_rates(rng, n) for n in range(3, 12)]
    found = [
        cost_model.diagnose([(r, formula(r)) for r in rates]) for formula, _ in cost_model.MISTAKES
    ]
    assert found == [sentence for _, sentence in cost_model.MISTAKES]
    assert cost_model.diagnose([(r, cost_model.expected_tokens(r)) for r in rates]) is None


def test_the_rules_of_the_diagnosis_are_all_wrong_and_all_different():
    for seed in range(60):
        tables = cost_model.random_tables(random.Random(seed))
        for rule, sentence in cost_model.MISTAKEN_RULES:
            answers = [(t, (rule(*t.arguments), 1.0)) for t in tables]
            assert cost_model.diagnose_choices(answers) == sentence


# The source map


FULL = {"python.sglang.srt.speculative.eagle_utils.eagle_sample", "vllm.v1.core.s.Sched.update"}


def test_the_courses_map_answers_every_key():
    accepted = source_map.accepted_answers()
    assert set(accepted) == set(source_names.ANSWER_KEYS) and all(accepted.values())


@pytest.mark.parametrize(
    "text",
    [
        "eagle_sample",
        " eagle_sample ",
        "eagle_sample()",
        "`eagle_sample`",
        "sglang/srt/speculative/eagle_utils.py::eagle_sample",
        "sglang.srt.speculative.eagle_utils.eagle_sample",
        "python/sglang/srt/speculative/eagle_utils.py#eagle_sample",
        "eagle_utils.py:eagle_sample",
        "Sched.update",
        "Sched::update",
        "vllm/v1/core/s.py::Sched.update",
    ],
)
def test_spellings_of_a_symbol(text):
    assert source_map.names_one_of(text, FULL) and source_names.is_one_name(text)


@pytest.mark.parametrize(
    "text",
    ["Eagle_Sample", "eagle_sampler", "eagle", "sample", "", "eagle_", "eagle_utils", "s", "Sched"]
    + ["Any.eagle_sample", "other/eagle_utils.py::eagle_sample", "Other.update", "update.Sched"],
)
def test_what_is_no_spelling_of_it(text):
    assert not source_map.names_one_of(text, FULL)


def test_a_list_of_names_is_no_answer():
    assert not source_names.is_one_name("eagle_sample, Sched.update")


@pytest.mark.parametrize("content", [None, "concepts: 3", "- 1", "a: [", "concepts: []"])
def test_an_unusable_map_is_not_measured(tmp_path, content):
    path = tmp_path / "m.yml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(Rejected) as caught:
        source_map.accepted_answers(path)
    assert caught.value.verdict == "not_measured" and "m.yml" in caught.value.reason


def test_a_key_without_an_answer_is_not_measured(tmp_path):
    path = tmp_path / "m.yml"
    path.write_text("releases: {}\nconcepts: []\n")
    with pytest.raises(Rejected, match="no answer for"):
        source_map.accepted_answers(path)


# The measured figures


def test_figures_of_tests_never_reach_the_graders_own_file():
    assert not figures.CACHE.is_relative_to(figures.REPO)


def test_figures_are_measured_once_a_day_machine_and_engine(tmp_path, monkeypatch):
    calls = []

    def measure():
        calls.append(1)
        return FIGURES

    monkeypatch.setattr(figures, "_measure", measure)
    cache = tmp_path / "deep" / "figures.json"
    assert figures.measured(cache) == figures.measured(cache) == FIGURES
    assert len(calls) == 1
    monkeypatch.setattr(figures, "_key", lambda: {"day": "another"})
    figures.measured(cache)
    assert len(calls) == 2
    for damage in ("{", "[]", '{"key": {"day": "another"}}'):
        cache.write_text(damage)
        assert figures.measured(cache) == FIGURES
    assert len(calls) == 5
    assert [path.name for path in cache.parent.iterdir()] == ["figures.json"]


def test_races_can_be_turned_off(tmp_path, monkeypatch):
    racing = dataclasses.replace(FIGURES, can_race=True)
    monkeypatch.setattr(figures, "_measure", lambda: racing)
    assert figures.measured(tmp_path / "f.json").can_race
    monkeypatch.setenv("GRADER_RACE", "no")
    assert figures.measured(tmp_path / "f.json") == FIGURES
    monkeypatch.delenv("GRADER_RACE")
    assert figures.measured(tmp_path / "f.json").can_race


def test_live_cases_differ_by_seed_and_have_a_clear_answer():
    cases = FIGURES.cases(random.Random(1))
    assert cases != FIGURES.cases(random.Random(2))
    assert all(cost_model.is_clear(FIGURES.methods, *case) for case in cases)
    choices = {cost_model.choose(FIGURES.methods, *case)[0] for case in cases}
    assert {"baseline", "ngram-4"} <= choices


def test_without_a_model_the_live_check_is_not_measured():
    def missing():
        raise FiguresError("the grader could not measure: the default model is not installed")

    judgement = judge(submission(), UNIT, 1, figures=missing, limits=LIMITS)
    assert judgement["live"].verdict == "not_measured"
    assert "not installed" in judgement["live"].reason
    assert judgement.total == 4


def test_a_missing_model_is_the_reason(monkeypatch):
    from kernels.runtime import InputError

    def missing(*args, **options):
        raise InputError("model x.gguf not found; run `make course`")

    monkeypatch.setattr("lessons.lib.model.loader.load_model", missing)
    with pytest.raises(FiguresError, match="could not measure: model x.gguf not found"):
        figures._measure()


def test_nothing_is_measured_for_a_function_that_cannot_answer():
    def must_not_run():
        raise AssertionError("measured for nothing")

    judgement = judge(submission(cost="pass"), UNIT, 1, figures=must_not_run, limits=LIMITS)
    assert judgement["live"].verdict == "fail"


def test_a_wrong_choice_on_measured_figures_fails_the_live_check():
    judgement = grade(submission(cost=fill_in("wrong/cost_most_tokens")))
    assert judgement["live"].verdict == "fail" and "cpu (test)" in judgement["live"].reason


@pytest.mark.slow
def test_the_grader_measures_on_its_own_engine():
    measured = figures._measure()
    assert [m["name"] for m in measured.methods] == ["ngram-2", "ngram-4", "ngram-8"]
    assert measured.baseline_ms > 0 and measured.device
    judgement = judge(submission(), UNIT, 1, figures=lambda: measured, limits=LIMITS)
    assert judgement["live"].verdict == "pass", judgement["live"]


def test_a_type_has_its_article():
    assert (a_type(1), a_type("x"), a_type([])) == ("an int", "a str", "a list")
