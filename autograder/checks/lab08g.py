"""The graded checks of Lab 8G: the public ones on secret inputs, and the engine's scheduler."""

from collections.abc import Callable

from autograder.checks import live_engine
from autograder.checks.graded import Graded
from lessons.lib.checks.asking import Passed, Rejected
from lessons.lib.checks.budget_cases import Blocks, Case, best_yields, random_case, staircase
from lessons.lib.checks.lab08g import (
    CELL,
    check_best,
    check_boundary,
    check_leak,
    judge,
    lengths_of,
)

SLOW = ("live",)
NUM_REQUESTS, DEPTH, NUM_NEW_TOKENS, PROMPT_LEN = 3, 5, 28, 32
# Against the better of off and the best fixed depth, by the cost table: the course's bar for
# whatever adapts. The budget is two steps old, and the stand-in's confidences move by 2 %.
MIN_GAIN = 0.97


def check_live(graded: Graded) -> str:
    """The grader's engine, whose DSpark scheduler asks the student for every step.

    Text must be the target's, rows those of the plan, each plan the best one, and the predicted
    time per token no worse than off or any fixed depth. No clock is read.
    """
    ask, rng = graded.ask(CELL), graded.rng
    lengths_of(ask, random_case(rng, 2))  # before a model is loaded
    model, tokenizer = live_engine.model("float32")

    from lessons.lib.bench.workload import load_prompts
    from lessons.lib.plugs.lab08g import AskedRule, paced_run

    def choose(old: Blocks, now: Blocks, cost_ms: list[float]) -> list[int]:
        return lengths_of(ask, Case(old, now, cost_ms))

    cost_ms = staircase(rng, NUM_REQUESTS * (1 + DEPTH))  # a machine's costs, drawn
    prompts = rng.sample(load_prompts(), NUM_REQUESTS)
    ids = [prompt.token_ids(tokenizer)[:PROMPT_LEN] for prompt in prompts]
    profiles = [[rng.uniform(0.4, 0.96)] * DEPTH for _ in ids]
    rule = AskedRule(choose, cost_ms)
    run = paced_run(model, tokenizer, ids, profiles, NUM_NEW_TOKENS, rule, rng.randrange(2**31))
    for step in run.planned:
        judge(Case(step.old, step.now, cost_ms), step.lengths, best_yields)
    if run.texts != run.expected:
        raise Rejected("the engine's greedy text changes when it verifies by these lengths")
    if not run.rows_agree:
        raise Rejected("the engine computed other rows than these lengths say")
    gains = [run.gain_over(depth, cost_ms) for depth in range(DEPTH + 1)]
    if min(gains) < MIN_GAIN:
        raise Rejected(
            f"by the cost table the run's tokens take {1 / min(gains):.2f}x the time that they "
            f"take at {'depth ' + str(gains.index(min(gains))) if gains[0] > min(gains) else 'off'}"
        )
    return Passed.with_values(
        f"{len(run.planned)} steps of the engine planned, the greedy text is the target's, and by "
        f"the cost table its tokens take {1 / min(gains):.2f}x the time of the better of off and "
        "the best fixed depth",
        {"predicted_gain": min(gains), "gain_over_off": gains[0]},
    )


CHECKS: dict[str, Callable[[Graded], str]] = {
    "best": check_best,
    "leak": check_leak,
    "boundary": check_boundary,
    "live": check_live,
}
