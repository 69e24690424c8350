"""The graded checks of Lab 8B: the public ones on secret inputs, and the model's own attention."""

from __future__ import annotations

from collections.abc import Callable

from autograder.checks import live_engine
from autograder.checks.graded import Graded
from lessons.lib.checks.asking import Rejected
from lessons.lib.checks.lab08b import check_boundary, check_step, check_whole
from lessons.lib.checks.online_softmax import (
    CELL,
    Block,
    Row,
    State,
    normalize,
    random_block,
    step,
    unseen,
)

SLOW = ("live",)
NUM_NODES, NUM_CONTEXT = 6, 12
REL_TOL = 1e-4  # of the largest logit; float32 rounding stays far below, another softmax far above


def check_live(graded: Graded) -> str:
    """The grader's model scores a tree with the student's lines as its attention: the logits are
    those of its own attention. Speed is no part of it: these lines run on NumPy here.
    """
    ask, rng = graded.ask(CELL), graded.rng
    step(ask, unseen(3, 2), random_block(rng, 3, 4, 2, True))  # before a model is loaded
    model, tokenizer = live_engine.model("float32")

    from lessons.lib.bench.workload import load_prompts
    from lessons.lib.plugs.lab08b import SteppedModel
    from lessons.lib.tree import random_tree
    from lessons.lib.tree_forward import tree_logits

    calls = 0

    def asked(
        acc: list[Row],
        row_max: Row,
        row_sum: Row,
        *block: object,
    ) -> State:
        nonlocal calls
        calls += 1
        return step(ask, (acc, row_max, row_sum), Block(*block))  # type: ignore[arg-type]

    def finished(acc: list[Row], row_sum: Row) -> list[Row]:
        return normalize(ask, acc, row_sum)

    prompt_ids = rng.choice(load_prompts(kinds=("copy",))).token_ids(tokenizer)[:NUM_CONTEXT]
    tree = random_tree(NUM_NODES, model.config.vocab_size, rng)
    expected = tree_logits(model, prompt_ids, tree)
    logits = tree_logits(SteppedModel(model, asked, finished), prompt_ids, tree)
    if not (logits - expected).abs().max() <= REL_TOL * expected.abs().max():
        raise Rejected("with these lines as its attention the model gives a tree other logits")
    return (
        f"with these lines as its attention ({calls} blocks) the model gives a tree of {NUM_NODES} "
        "nodes the logits of its own attention; their speed as a kernel needs a GPU and was not "
        "measured here"
    )


CHECKS: dict[str, Callable[[Graded], str]] = {
    "step": check_step,
    "whole": check_whole,
    "boundary": check_boundary,
    "live": check_live,
}
