"""The public checks of Lesson 8 are the grader's, and hold nothing that only the grader knows."""

import contextlib
import io
import re

import pytest
from unit_kit import ROOT, solution

from autograder.checks import lesson08 as graded
from autograder.checks.source_map import accepted_answers
from autograder.fill_ins import fill_ins
from lessons.lib.checks import lesson08, public
from lessons.lib.checks.asking import Rejected
from lessons.lib.checks.public import public_checks
from lessons.lib.checks.source_names import ANSWER_KEYS

UNIT = "lesson08"
ITEMS = fill_ins(UNIT)
each = pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.name)
# Their form is right, and what is named is not: only the grader can tell.
WELL_FORMED = {"map_invented_rollback", "map_one_symbol", "map_paths_only", "map_swapped"}
WELL_FORMED |= {"map_wrong_case", "map_wrong_class"}


def filled(text):
    """A notebook's names with the solution's code, and `text` over it."""
    namespace = {}
    for source in (*(cell.source for cell in solution(UNIT).cells), text):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(source, namespace)
    return namespace


@each
def test_a_fill_in_is_told_what_the_grader_will_say(item, capsys):
    num_right = public_checks(UNIT, filled(item.text))
    said = capsys.readouterr().out
    assert said.endswith(f"public checks {num_right} of 3; the graded ones draw other inputs\n")
    passes = item.kind == "right" or item.path.stem in WELL_FORMED
    assert (num_right == 3) == passes, said


def test_main_and_boundary_are_the_graders_own():
    assert graded.CHECKS["main"] is lesson08.CHECKS["main"]
    assert graded.CHECKS["boundary"] is lesson08.CHECKS["boundary"]
    assert set(graded.CHECKS) - set(lesson08.CHECKS) == {"live"}


def sources(**names):
    return {"source_objects": dict.fromkeys(ANSWER_KEYS, "anything") | names}


def test_the_notebook_judges_the_form_of_a_name_only():
    assert "the grader judges" in public.run(UNIT, "source_map", sources())
    with pytest.raises(Rejected) as caught:
        public.run(UNIT, "source_map", sources(draft_ms="a, b", verify_ms="______"))
    told = "4 of 6 named; not filled in: verify_ms; not one name: draft_ms"
    assert caught.value.reason == told and caught.value.points == pytest.approx(4 / 6, abs=1e-4)


def test_no_right_name_lies_with_the_public_checks():
    checks = ROOT / "lessons/lib/checks"
    text = "".join((checks / f"{name}.py").read_text("utf-8") for name in (UNIT, "source_names"))
    tails = {full.rsplit(".", 1)[-1] for full in set().union(*accepted_answers().values())}
    telling = {name for name in tails if not (name.islower() and "_" not in name)}  # not "draft"
    assert len(telling) > 50
    assert not telling & set(re.findall(r"\w+", text))
