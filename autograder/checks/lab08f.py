"""The graded checks of Lab 8F: the public ones on secret inputs, and DFlash in the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autograder.checks import live_engine
from autograder.checks.graded import Graded
from lessons.lib.checks.asking import Passed, Rejected
from lessons.lib.checks.block_cases import Case, Inputs, inputs_of, random_case
from lessons.lib.checks.lab08f import CELL, check_boundary, check_inputs, check_mask

if TYPE_CHECKING:
    from lessons.lib.draft.proposer import Proposer

SLOW = ("live",)
KINDS, NUM_NEW_TOKENS, DEPTH = ("json", "maths", "code"), 20, 4
# Both bars rest on course/results/dflash_blocks.json. Rows, relative to the largest entry: the
# right layout stays below 1e-5, the most harmless wrong one above 1e-2.
REL_TOL = 1e-4
# Drafts accepted, against the course's own drafter. Equal rows give equal drafts but for near-ties,
# so less than this is no proof of a mistake: acceptance alone cannot tell wrong layouts from right.
MIN_SHARE = 0.9


def check_live(graded: Graded) -> str:
    """The grader's engine drafts for three requests in one pass a step, laid out by the student.

    Every row must be that of a pass over its request alone, and the greedy text target-only's. The
    counts are the grader's own. Float32.
    """
    ask, rng = graded.ask(CELL), graded.rng
    inputs_of(ask, random_case(rng, 2))  # before a model is loaded
    model, tokenizer = live_engine.model("float32")

    from kernels.runtime import InputError
    from lessons.lib.bench.workload import load_prompts
    from lessons.lib.draft.registry import make_proposer
    from lessons.lib.plugs.lab08f import BlockPass, DraftedRun, drafted_run

    def asked(
        anchors: list[int], lens: list[int], num_slots: int, block_size: int, mask_token_id: int
    ) -> Inputs:
        return inputs_of(ask, Case(anchors, lens, num_slots, block_size, mask_token_id))

    drawn = [rng.choice(load_prompts("sweep", (kind,))) for kind in KINDS]
    prompts = [prompt.token_ids(tokenizer) for prompt in drawn]

    def run(make: Callable[[], Proposer | None], depth: int = DEPTH) -> DraftedRun:
        return drafted_run(model, tokenizer, prompts, make, depth, NUM_NEW_TOKENS)

    plain = run(lambda: None, depth=0)
    reference = run(lambda: make_proposer("dflash", model))
    shared = BlockPass(model, asked)
    try:
        drafted = run(shared.member)
    except InputError as error:
        raise Rejected(f"the draft pass cannot be run: {error}") from None
    if shared.largest_error > REL_TOL:
        raise Rejected("in one pass over all blocks a row is not what its request alone gives")
    if drafted.texts != plain.texts or reference.texts != plain.texts:
        raise Rejected("the engine's greedy text changes with the layout of the draft pass")
    if shared.num_passes != drafted.num_steps:
        raise Rejected(f"{shared.num_passes} draft passes in {drafted.num_steps} steps")
    return _compared(drafted.num_accepted, reference.num_accepted, drafted.num_steps)


def _compared(accepted: int, of_reference: int, num_steps: int) -> str:
    values = {"accepted": accepted, "of_reference": of_reference}
    told = f"{accepted} drafts accepted, {of_reference} with the course's own drafter"
    if not of_reference or accepted < MIN_SHARE * of_reference:
        raise Rejected(f"the rows are right, but {told}", "inconclusive", values=values)
    return Passed.with_values(
        f"one draft pass in each of {num_steps} steps for all three requests, every row that of a "
        f"pass alone, and the greedy tokens are the same; {told}",
        values,
    )


CHECKS: dict[str, Callable[[Graded], str]] = {
    "inputs": check_inputs,
    "mask": check_mask,
    "boundary": check_boundary,
    "live": check_live,
}
