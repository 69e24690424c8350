"""The graded checks of Lesson 7: the public ones on secret inputs, and the engine itself."""

from collections.abc import Callable

from autograder.checks import live_engine
from autograder.checks.engine_race import race
from autograder.checks.graded import Graded
from autograder.speed_decision import Rules
from lessons.lib.checks.asking import Rejected
from lessons.lib.checks.lesson07 import CELL, check_accept, check_boundary, check_law, verify

SLOW = ("live",)
NUM_NEW_TOKENS, DEPTH, NUM_PROMPTS = 20, 4, 3
# Where the target really copies, so that the look-up finds at least three tokens a round.
PROMPTS = ("repeat-harbour", "extract-dates", "fix-typo-email", "rename-variable")
# Faster than without drafts; no more is asked, since how much faster is the machine's affair.
RULES = Rules(bar=1.0, pairs=6, attempts=2)


def check_live(graded: Graded) -> str:
    """The grader's engine verifies with the student's function: the same greedy tokens, in fewer
    rounds and in less time. In float32, so that not one token may differ.
    """
    ask = graded.ask(CELL)
    verify(ask, [0], [[1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]], [0.25])  # before a model is loaded
    model, tokenizer = live_engine.model("float32")

    from lessons.lib.bench.workload import load_prompts
    from lessons.lib.draft.registry import make_proposer
    from lessons.lib.engine import Engine
    from lessons.lib.plugs.lesson07 import chain_rule

    rule = chain_rule(lambda *arguments: verify(ask, *arguments))
    plain, drafting = Engine(model, tokenizer), Engine(model, tokenizer, verify=rule)
    num_rounds = 0

    def baseline(prompt_ids: list[int]) -> list[int]:
        return plain.generate(prompt_ids, NUM_NEW_TOKENS).token_ids

    def theirs(prompt_ids: list[int]) -> list[int]:
        nonlocal num_rounds
        proposer = make_proposer("ngram")
        result = drafting.generate(prompt_ids, NUM_NEW_TOKENS, proposer=proposer, depth=DEPTH)
        num_rounds += len(result.rounds)
        return result.token_ids

    chosen = graded.rng.sample(PROMPTS, NUM_PROMPTS)
    copies = load_prompts(kinds=("copy",))
    prompts = [prompt.token_ids(tokenizer) for prompt in copies if prompt.name in chosen]
    num_tokens = 0
    for prompt_ids in prompts:
        expected = baseline(prompt_ids)
        if theirs(prompt_ids) != expected:
            raise Rejected("the engine's greedy text changes when it verifies with verify_chain")
        num_tokens += len(expected) - 1  # the first comes with the prompt
    if num_rounds >= num_tokens:
        raise Rejected("the engine needs as many rounds as without drafts: none of them stays")
    told = f"same greedy tokens, {num_tokens / num_rounds:.2f} tokens a round on copy prompts"
    speed = race(baseline, theirs, graded.student, prompts, graded.rng, RULES)
    if speed.verdict != "pass":
        raise Rejected(f"{told}; {speed.reason}", speed.verdict)
    return f"{told}; {speed.reason}"


CHECKS: dict[str, Callable[[Graded], str]] = {
    "accept": check_accept,
    "law": check_law,
    "boundary": check_boundary,
    "live": check_live,
}
