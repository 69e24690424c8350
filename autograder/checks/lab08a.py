"""The graded checks of Lab 8A: the public ones on secret inputs, and the engine itself."""

from collections.abc import Callable

from autograder.checks import live_engine
from autograder.checks.graded import Graded
from lessons.lib.checks.asking import Rejected
from lessons.lib.checks.lab08a import (
    CELL,
    Mask,
    check_boundary,
    check_mask,
    check_positions,
    layout,
)

SLOW = ("live",)
NUM_NEW_TOKENS, NUM_DRAFT_TOKENS, NUM_NODES = 32, 8, 12
REL_TOL = 1e-4  # of the largest logit; float32 rounding stays far below, another mask far above


def check_live(graded: Graded) -> str:
    """The grader's engine lays its trees out with the student's function: every node's logits are
    those of its path alone, and the greedy text is target-only's. Float32, so nothing may differ.
    """
    ask = graded.ask(CELL)
    layout(ask, [-1, 0, 0], 3)  # before a model is loaded
    model, tokenizer = live_engine.model("float32")

    from lessons.lib.bench.workload import load_prompts
    from lessons.lib.draft.ngram import NgramProposer
    from lessons.lib.engine import Engine
    from lessons.lib.plugs.lab08a import LaidOut, plugged
    from lessons.lib.tree import DraftTree, random_tree
    from lessons.lib.tree_forward import tree_logits

    def asked(parents: list[int], context_len: int) -> tuple[list[int], Mask]:
        return layout(ask, parents, context_len)

    prompt = graded.rng.choice(load_prompts(kinds=("copy",)))
    prompt_ids = prompt.token_ids(tokenizer)
    tree = random_tree(NUM_NODES, model.config.vocab_size, graded.rng)
    logits = tree_logits(model, prompt_ids, plugged(tree, asked))
    for node in range(NUM_NODES):
        if not tree.children[node]:
            path = list(tree.path(node))
            chain = DraftTree.chain([tree.token_ids[n] for n in path])
            alone = tree_logits(model, prompt_ids, chain)
            if (logits[path] - alone).abs().max() > REL_TOL * alone.abs().max():
                raise Rejected("in one forward over the tree a node's logits are not its path's")

    engine = Engine(model, tokenizer)
    plain = engine.generate(prompt_ids, NUM_NEW_TOKENS)
    rates = []
    for num_branches in (3, 1):
        proposer = LaidOut(NgramProposer(num_branches=num_branches), asked)
        drafted = engine.generate(
            prompt_ids, NUM_NEW_TOKENS, proposer=proposer, depth=NUM_DRAFT_TOKENS
        )
        if drafted.token_ids != plain.token_ids:
            raise Rejected("the engine's greedy text changes with the layout of its trees")
        rates.append((len(drafted.token_ids) - 1) / len(drafted.rounds))
    return (
        "node logits are those of single paths, and the greedy tokens are the same; "
        f"{rates[0]:.2f} tokens a round with a tree, {rates[1]:.2f} with a chain of as many nodes"
    )


CHECKS: dict[str, Callable[[Graded], str]] = {
    "positions": check_positions,
    "mask": check_mask,
    "boundary": check_boundary,
    "live": check_live,
}
