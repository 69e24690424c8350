"""The graded checks of Lab 8C: the public ones on secret inputs, the loaded pool, the engine."""

from collections.abc import Callable

from autograder.checks import live_engine
from autograder.checks.graded import Graded
from lessons.lib.checks.asking import Rejected
from lessons.lib.checks.lab08c import (
    CELL,
    Plan,
    as_count,
    as_moves,
    as_pages,
    check_boundary,
    check_moves,
    check_pages,
    plan_of,
    random_case,
)

SLOW = ("live",)
NUM_ROUNDS = 20_000  # in all, over four page sizes
NUM_NEW_TOKENS, NUM_DRAFT_TOKENS = 32, 8


def check_live(graded: Graded) -> str:
    """The grader's pool, under load, and its engine keep KV by the student's plan.

    Books and content are the pool's own checks; the tokens are compared in float32.
    """
    ask = graded.ask(CELL)
    plan_of(ask, random_case(graded.rng, 4, 6))  # before torch is loaded

    def asked(*arguments: object) -> Plan:
        value = ask.call(CELL, *arguments).value
        if not isinstance(value, tuple | list) or len(value) != 3:
            raise Rejected("it did not return a triple (moves, pages_back, new_length)")
        return as_moves(value[0]), as_pages(value[1]), as_count(value[2])

    counts = _soak(asked, graded.rng.randrange(2**31))
    model, tokenizer = live_engine.model("float32")

    from lessons.lib.bench.workload import load_prompts
    from lessons.lib.draft.ngram import NgramProposer
    from lessons.lib.engine import Engine
    from lessons.lib.plugs.lab08c import rollback_rule

    prompt_ids = graded.rng.choice(load_prompts(kinds=("copy",))).token_ids(tokenizer)
    expected = Engine(model, tokenizer).generate(prompt_ids, NUM_NEW_TOKENS)
    engine = Engine(model, tokenizer, rollback=rollback_rule(asked))
    drafted = engine.generate(
        prompt_ids, NUM_NEW_TOKENS, proposer=NgramProposer(num_branches=3), depth=NUM_DRAFT_TOKENS
    )
    if drafted.token_ids != expected.token_ids:
        raise Rejected("the engine's greedy text changes when it keeps KV by this plan")
    return (
        f"{NUM_ROUNDS:,} rounds without a leak ({counts} pages given back), KV as after a fresh "
        "prefill, and the engine's greedy tokens are the same"
    )


def _soak(asked: Callable[..., Plan], seed: int) -> int:
    """Random lives of requests on tiny pools; the number of pages that went back."""
    import torch

    from kernels.block_allocator import IntegrityError
    from kernels.kv_pool import RollbackPolicy
    from kernels.kv_soak import POOL_SIZES, KVSoak, WrongKV, make_pool
    from kernels.runtime import InputError
    from lessons.lib.plugs.lab08c import rollback_rule

    num_returned = 0
    for number, page_size in enumerate(POOL_SIZES):
        pool = make_pool(page_size, RollbackPolicy.RETURN_PAGES)
        soak = KVSoak(pool, seed + number, rollback_rule(asked))
        try:
            with torch.inference_mode():
                soak.run(NUM_ROUNDS // len(POOL_SIZES))
        except (IntegrityError, WrongKV, InputError) as error:
            rounds = sum(soak.counts[action] for action in ("verify", "admit"))
            raise Rejected(f"under load, after about {rounds} rounds: {error}") from None
        num_returned += pool.counters.pages_returned
    return num_returned


CHECKS: dict[str, Callable[[Graded], str]] = {
    "moves": check_moves,
    "pages": check_pages,
    "boundary": check_boundary,
    "live": check_live,
}
