"""Lab 8F: one DFlash pass for a batch of requests, on a tiny target and a random drafter."""

import json
from pathlib import Path

import pytest

from autograder.block_ledger import ANSWER
from autograder.checks import lab08f as live
from kernels.runtime import InputError
from lessons.lib.checks.block_cases import Case, sees_rightly
from lessons.lib.draft.dflash import DFlashProposer
from lessons.lib.plugs.lab08f import BlockPass, checked, drafted_run, overheard
from tests.batch_kit import random_ids, tiny_model
from tests.block_kit import block_net

ROOT = Path(__file__).parents[1]
DEPTH, NUM_NEW = 4, 12
PROMPTS = [random_ids(size, seed=size) for size in (9, 17, 30)]
RIGHT = ([1, 2], [5, 6], [[True, True], [False, True]])


def laid_out(sees=sees_rightly):
    def inputs(*arguments):
        case = Case(*arguments)
        return case.token_ids, case.positions, case.mask_by(sees)

    return inputs


def run(make, depth=DEPTH):
    return drafted_run(*tiny_model(), PROMPTS, make, depth, NUM_NEW)


def shared_pass(inputs):
    model, _ = tiny_model()
    return BlockPass(model, inputs, block_net("dflash", model.config))


def test_one_pass_a_step_gives_every_request_what_a_pass_of_its_own_gives():
    model, _ = tiny_model()
    shared = shared_pass(laid_out())
    together = run(shared.member)
    alone = run(lambda: DFlashProposer(shared.net, model))
    assert together.texts == alone.texts == run(lambda: None, 0).texts
    assert [r.accepted for r in together.rounds] == [r.accepted for r in alone.rounds]
    assert shared.num_passes == together.num_steps < len(together.rounds)
    assert 0 < shared.largest_error < 1e-5


def causal(case, request, row, column):
    return sees_rightly(case, request, row, column) and (column.row is None or column.row <= row)


def own_and_padding(case, request, row, column):
    return column.owner == request


def all_blocks(case, request, row, column):
    return column.row is not None or sees_rightly(case, request, row, column)


@pytest.mark.parametrize("sees", [causal, own_and_padding, all_blocks])
def test_a_wrong_mask_shows_in_the_rows_and_not_in_the_text(sees):
    shared = shared_pass(laid_out(sees))
    assert run(shared.member).texts == run(lambda: None, 0).texts
    assert shared.largest_error > 1e-3


def test_a_request_that_ends_leaves_the_pass():
    model, tokenizer = tiny_model()
    asked = []

    def inputs(*arguments):
        asked.append(len(arguments[0]))
        return laid_out()(*arguments)

    shared = shared_pass(inputs)
    run(shared.member)
    drafted_run(model, tokenizer, PROMPTS[:1], shared.member, DEPTH, NUM_NEW)
    assert max(asked) == 3 and asked[-1] == 1 and len(asked) == shared.num_passes


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (None, "triple"),
        (RIGHT[:2], "triple"),
        (([1], *RIGHT[1:]), "2 rows each"),
        ((*RIGHT[:2], [[True], [True]]), "2 entries"),
        (([1, 9], *RIGHT[1:]), "token_ids must be from 0 to 8"),
        (([1, 2], [5, -1], RIGHT[2]), "positions must be from 0 to 6"),
        ((*RIGHT[:2], [[True, True], [False, False]]), "sees nothing"),
    ],
)
def test_inputs_that_no_pass_can_take_are_named(answer, what):
    with pytest.raises(InputError, match=what):
        checked(answer, (2, 2), (9, 7))


def test_right_inputs_are_taken():
    assert checked(RIGHT, (2, 2), (9, 7)) == RIGHT


def test_what_a_proposer_says_is_overheard():
    shared = shared_pass(laid_out())
    member = shared.member()
    heard = overheard(member)
    drafted_run(*tiny_model(), PROMPTS[:1], lambda: member, DEPTH, NUM_NEW)
    assert len(heard) == shared.num_passes and min(heard) == len(PROMPTS[0]) + 1


def ledger():
    return json.loads((ROOT / "course/results/dflash_blocks.json").read_text())["results"]


def test_the_bar_on_rows_stands_between_the_right_layout_and_every_wrong_one():
    right, *wrong = ledger()["layouts"]
    assert right["layout"] == ANSWER and len(wrong) > 10
    assert 10 * right["largest_error"] < live.REL_TOL
    assert all(row["smallest_error"] > 10 * live.REL_TOL for row in wrong)


def test_acceptance_alone_would_not_find_the_wrong_layouts():
    right, *wrong = ledger()["layouts"]
    enough = [row for row in wrong if row["accepted"] >= right["accepted"]]
    assert len(enough) >= 2


@pytest.mark.parametrize("lang", ["", ".zh"])
def test_the_lesson_quotes_the_ledger(lang):
    """Every figure of the two paragraphs that name the ledger is in it, rounded."""
    text = (ROOT / f"lessons/lab08f_dflash{lang}.qmd").read_text()
    found = ledger()
    right, *wrong = found["layouts"]
    enough = sum(row["accepted"] >= right["accepted"] for row in wrong)
    for method in found["decay"]:
        for value in method["conditional"][:2]:
            assert f"{value:.2f}" in text, value
    for number in (found["decay"][0]["places"], right["places"], len(wrong), enough):
        assert f" {number} " in text, number
    assert f"{min(row['smallest_error'] for row in wrong):.2f}" in text
