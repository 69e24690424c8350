"""The graded checks of Lesson 7: the public ones on secret inputs, and the engine itself."""

from collections.abc import Callable
from typing import Any

from autograder.checks import live_engine
from autograder.checks.graded import Graded
from lessons.lib.checks.asking import Rejected
from lessons.lib.checks.lesson07 import CELL, check_accept, check_boundary, check_law, verify

SLOW = ("live",)
NUM_NEW_TOKENS, DEPTH, NUM_PROMPTS = 24, 4, 1


def check_live(graded: Graded) -> str:
    """The grader's engine verifies with the student's function: the same tokens, in fewer rounds.

    Greedy in float32, so that not one token may differ. How much time it saves is not judged here.
    """
    ask = graded.ask(CELL)
    verify(ask, [0], [[1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]], [0.25])  # before a model is loaded
    model, tokenizer = live_engine.model("float32")

    from lessons.lib.bench.workload import load_prompts
    from lessons.lib.draft.registry import make_proposer
    from lessons.lib.engine import Engine
    from lessons.lib.plugs.lesson07 import chain_rule

    def asked(*arguments: Any) -> tuple[int, list[float]]:
        return verify(ask, *arguments)

    plain, theirs = Engine(model, tokenizer), Engine(model, tokenizer, verify=chain_rule(asked))
    prompts = graded.rng.sample(load_prompts(kinds=("copy",)), NUM_PROMPTS)
    num_rounds = num_tokens = 0
    for prompt in prompts:
        prompt_ids = prompt.token_ids(tokenizer)
        expected = plain.generate(prompt_ids, NUM_NEW_TOKENS)
        got = theirs.generate(
            prompt_ids, NUM_NEW_TOKENS, proposer=make_proposer("ngram"), depth=DEPTH
        )
        if got.token_ids != expected.token_ids:
            raise Rejected("the engine's greedy text changes when it verifies with verify_chain")
        num_rounds += len(got.rounds)
        num_tokens += len(got.token_ids)
    if num_rounds >= num_tokens - len(prompts):
        raise Rejected("the engine needs as many rounds as without drafts: none of them stays")
    return f"same greedy tokens, {num_tokens / num_rounds:.2f} tokens a round on copy prompts"


CHECKS: dict[str, Callable[[Graded], str]] = {
    "accept": check_accept,
    "law": check_law,
    "boundary": check_boundary,
    "live": check_live,
}
