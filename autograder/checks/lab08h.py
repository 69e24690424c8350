"""The graded checks of Lab 8H: the public ones on secret inputs, and the engine's own graphs."""

from collections.abc import Callable

from autograder.checks import live_engine
from autograder.checks.graded import Graded
from lessons.lib.checks.asking import Rejected
from lessons.lib.checks.lab08h import (
    CELL,
    Case,
    best_of_all,
    check_best,
    check_boundary,
    check_large,
    choice_of,
    judge,
    random_case,
)

SLOW = ("live",)
NUM_NEW_TOKENS, MAX_DEPTH, NUM_STEPS = 24, 7, 24
REL_TOL = 1e-4  # of the largest logit


def check_live(graded: Graded) -> str:
    """Rounds of the grader's engine are the traffic; its graphs are those that the student chose.

    Counters must say what the choice promises, and padding must not change a logit.
    """
    ask, rng = graded.ask(CELL), graded.rng
    choice_of(ask, random_case(rng, 3))  # before a model is loaded
    model, tokenizer = live_engine.model("float32")

    from kernels.graphs import RecordingBackend
    from lessons.lib.bench.workload import load_prompts
    from lessons.lib.draft.ngram import NgramProposer
    from lessons.lib.engine import Engine
    from lessons.lib.plugs.lab08h import replay, rows_of

    engine = Engine(model, tokenizer)
    prompt_ids = rng.choice(load_prompts(kinds=("copy",))).token_ids(tokenizer)
    runs = [
        engine.generate(prompt_ids, NUM_NEW_TOKENS, proposer=NgramProposer(), depth=depth)
        for depth in rng.sample(range(1, MAX_DEPTH + 1), 3)
    ]
    rows = rows_of(runs)
    sizes = list(range(1, MAX_DEPTH + 2))
    costs = random_case(rng, len(sizes))  # a machine's costs, drawn: what is judged is the choice
    case = Case(
        sizes, *costs.arguments[1:4], [rows[size] for size in sizes], sum(costs.graph_mib) // 3
    )
    chosen = choice_of(ask, case)
    judge(case, chosen, best_of_all(case))
    steps = rng.sample(sorted(rows.elements()), min(NUM_STEPS, rows.total()))
    result = replay(model, prompt_ids, steps, chosen, RecordingBackend())
    too_large = sum(step > max(chosen, default=0) for step in steps)
    served = result.counters.hit + result.counters.padded
    if result.counters.eager != too_large or served != len(steps) - too_large:
        raise Rejected("the engine's graphs do not serve the steps that the choice promises")
    if result.largest_error > REL_TOL:
        raise Rejected("a step in a bucket gives other logits than without graphs")
    return (
        f"{served} of {len(steps)} real steps replayed ({result.counters.padded} padded) in "
        f"{len(chosen)} buckets, with the logits of the forward without graphs; "
        "the time of a replay needs a GPU and was not measured here"
    )


CHECKS: dict[str, Callable[[Graded], str]] = {
    "best": check_best,
    "large": check_large,
    "boundary": check_boundary,
    "live": check_live,
}
