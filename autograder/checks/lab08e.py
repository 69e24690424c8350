"""The graded checks of Lab 8E: the public ones on secret inputs, and the engine's MTP proposer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from autograder.checks import live_engine
from autograder.checks.graded import Graded
from lessons.lib.checks.asking import Passed, Rejected
from lessons.lib.checks.lab08e import (
    CELL,
    ROWS,
    Answer,
    Case,
    as_rows,
    check_boundary,
    check_curves,
    check_further,
    check_pairs,
    rows_of,
)

SLOW = ("live",)
# Prompts of the kinds on which the module gets furthest; the others tell less about position 3.
KINDS = ("maths", "json")
NUM_EACH, NUM_NEW_TOKENS, DEPTH = 2, 32, 3
# Of the reference at position 3: where it has none, its wiring cannot be told from a broken one.
MIN_ACCEPTED = 1


def check_live(graded: Graded) -> str:
    """The grader's engine drafts with the student's wiring and with the course's own proposer.

    Both run the same module on the same states in float32, so a right wiring drafts the same
    tokens: round by round as many are accepted. No tolerance, and no clock.
    """
    ask, rng = graded.ask(CELL), graded.rng
    rows_of(ask, Case([11, 12, 13], [], 0, 0))  # before a model is loaded
    model, tokenizer = live_engine.model("float32")

    from kernels.runtime import InputError
    from lessons.lib.bench.mtp_wirings import curve, drawn_prompts, shipped_net
    from lessons.lib.draft.mtp import MtpProposer
    from lessons.lib.engine import Engine
    from lessons.lib.plugs.lab08e import WiredMtpProposer

    def asked(*arguments: object) -> Answer:
        return as_rows(ask.call(ROWS, *arguments).value)

    engine, net = Engine(model, tokenizer), shipped_net(model)
    wired: list[int] = []
    reference: list[int] = []
    for _, ids in drawn_prompts(tokenizer, NUM_EACH, rng.randrange(2**31), KINDS):
        expected = engine.generate(ids, NUM_NEW_TOKENS, None, MtpProposer(net, model), DEPTH)
        proposer = WiredMtpProposer(net, model, asked)
        try:
            found = engine.generate(ids, NUM_NEW_TOKENS, None, proposer, DEPTH)
        except InputError as error:
            raise Rejected(f"the engine cannot run this wiring: {error}") from None
        if found.token_ids != expected.token_ids:
            raise Rejected("the engine's greedy text changes with this wiring")
        wired += [record.accepted for record in found.rounds]
        reference += [record.accepted for record in expected.rounds]
    return judge_live(curve(wired, DEPTH), curve(reference, DEPTH), wired, reference)


def judge_live(
    curve: Sequence[int], own: Sequence[int], wired: Sequence[int], reference: Sequence[int]
) -> str:
    """The reason of a pass; raises Rejected. curve, own: counts by position of the wiring and of
    the reference, from its accepted drafts in each round, `wired` and `reference`."""
    shares = " ".join(f"{count / curve[0]:.2f}" for count in curve[1:])
    theirs = " ".join(f"{count / own[0]:.2f}" for count in own[1:])
    if any(a != b for a, b in zip_longest(wired, reference)):
        raise Rejected(
            f"acceptance at positions 1 to {DEPTH} is {shares} of {curve[0]} rounds, and "
            f"{theirs} of {own[0]} with the course's own wiring on the same texts"
        )
    if own[DEPTH] < MIN_ACCEPTED:
        raise Rejected(
            f"on these texts no draft at position {DEPTH} was accepted, whoever wired it: too "
            "little to judge by",
            "inconclusive",
        )
    return Passed.with_values(
        f"in {curve[0]} rounds of the engine the wiring drafts as the course's own: acceptance at "
        f"positions 1 to {DEPTH} is {shares}, {1 + sum(curve[1:]) / curve[0]:.2f} tokens a round",
        {"accepted": list(curve), "rounds": curve[0]},
    )


CHECKS: dict[str, Callable[[Graded], str]] = {
    "pairs": check_pairs,
    "further": check_further,
    "curves": check_curves,
    "boundary": check_boundary,
    "live": check_live,
}
