"""The graded checks of Lab 8D: the public ones on secret inputs, and EAGLE-3 in the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autograder.checks import live_engine
from autograder.checks.graded import Graded
from lessons.lib.checks.asking import Passed, Question, Rejected
from lessons.lib.checks.draft_tree_cases import Candidates
from lessons.lib.checks.lab08d import (
    CELL,
    Beam,
    Tree,
    beam_of,
    check_beam,
    check_boundary,
    check_rerank,
    judge_beam,
    judge_tree,
    tree_of,
)

if TYPE_CHECKING:
    from lessons.lib.plugs.lab08d import TreePair

SLOW = ("live",)
# As in course/results/draft_trees.json, whose prompts these are: what right trees reach is known.
NUM_NEW_TOKENS, NUM_DRAFT_TOKENS = 24, 8
MAX_TURNS = 3  # each of one prompt of each kind
MIN_RATIO = 1.0


def check_live(graded: Graded) -> str:
    """The grader's EAGLE-3 grows its trees with the student's functions: each beam and each tree is
    the best one, the text stays the same, and a round yields at least as many tokens as with the
    best fixed tree of as many nodes.

    The last of these depends on the prompts too. Where it does not hold for one turn of them, more
    are drawn; trees that are right never fail by it.
    """
    ask, rng = graded.ask(CELL), graded.rng
    beam_of(ask, [-1, -1], [-0.5, -1.0], 1)  # before a model is loaded
    pair = _pair(ask)

    from lessons.lib.bench.workload import KINDS, load_prompts

    columns = [rng.sample(load_prompts("heldout", (kind,)), MAX_TURNS) for kind in KINDS]
    for turn in zip(*columns, strict=True):
        for prompt in turn:
            if not pair.run(prompt, NUM_NEW_TOKENS):
                raise Rejected("the engine's greedy text changes with these trees")
        if pair.ratio >= MIN_RATIO:
            break
    what = (
        f"{pair.grown:.2f} tokens a round with these trees, {pair.fixed:.2f} with the best fixed "
        f"tree of as many nodes ({NUM_DRAFT_TOKENS} guesses, {pair.num_prompts} prompts)"
    )
    values = {"grown": pair.grown, "fixed": pair.fixed, "num_prompts": pair.num_prompts}
    if pair.ratio < MIN_RATIO:
        raise Rejected(f"every tree is right, but on these prompts {what}", "inconclusive")
    return Passed.with_values(f"every tree is the best one, the text is the same; {what}", values)


def _pair(ask: Question) -> TreePair:
    """Both kinds of trees; every answer of the student is judged as it comes."""
    model, tokenizer = live_engine.model("float32")

    from lessons.lib.plugs.lab08d import TreePair

    def grow_beam(parents: list[int], log_probs: list[float], width: int) -> Beam:
        answer = beam_of(ask, parents, log_probs, width)
        judge_beam(Candidates(parents, log_probs), width, answer)
        return answer

    def rerank(parents: list[int], scores: list[float], num_nodes: int) -> Tree:
        answer = tree_of(ask, parents, scores, num_nodes)
        judge_tree(parents, scores, num_nodes, answer)
        return answer

    return TreePair(model, tokenizer, grow_beam, rerank, NUM_DRAFT_TOKENS)


CHECKS: dict[str, Callable[[Graded], str]] = {
    "beam": check_beam,
    "rerank": check_rerank,
    "boundary": check_boundary,
    "live": check_live,
}
