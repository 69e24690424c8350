"""Lab 8G: does `verify_lengths` spend a step's budget best, and without looking ahead?

Judged is what the lengths yield, by trying every allocation of up to four requests; what they must
not look at, by exact laws of the first token and by changing confidences that come too late.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import accumulate

from lessons.lib.checks.asking import Question, Rejected, Submission, a_type, try_all
from lessons.lib.checks.budget_cases import (
    REL_TOL,
    Blocks,
    Case,
    best_yields,
    confidences,
    first_token_law,
    random_case,
    sorted_yields,
    staircase,
    throughputs,
    tokens_of,
)

CELL = "verify_lengths"
LENGTHS = "verify_lengths"
NUM_SMALL, NUM_LARGE, NUM_WORLDS, NUM_CHANGES = 48, 4, 60, 240
MIN_SHARE = 0.95  # of the best throughput: who always verifies nothing does not look ahead either
PAPER_COST_MS = [0.0, 1.0, 1 / 0.5, 1 / 0.45]  # steps per ms: 1, 0.5, 0.45 (arXiv 2607.05147, A)


def lengths_of(ask: Question, case: Case) -> list[int]:
    """What `verify_lengths` returned, checked against its contract. Raises Rejected."""
    value = ask.call(LENGTHS, *case.arguments).value
    if not isinstance(value, list | tuple):
        raise Rejected(f"{LENGTHS} returned {a_type(value)}, not a list of lengths")
    if len(value) != len(case.now):
        raise Rejected(
            f"{LENGTHS} returned {len(value)} lengths for {len(case.now)} requests: one for each"
        )
    if any(isinstance(n, bool) or not isinstance(n, int) for n in value):
        raise Rejected(f"{LENGTHS} returned a length that is not a whole number")
    if any(not 0 <= n <= len(block) for n, block in zip(value, case.now, strict=True)):
        raise Rejected("a length must be 0 or more and at most the number of drafts of its request")
    return list(value)


# best


def check_best(submission: Submission) -> str:
    """The lengths yield what the best of all allocations does; many requests are done in time."""
    ask, rng = submission.ask(CELL), submission.rng
    for number in range(NUM_SMALL):
        case = random_case(rng, 1 + number % 4, is_steady=number % 3 == 0)
        judge(case, lengths_of(ask, case), best_yields)
    for _ in range(NUM_LARGE):
        case = random_case(rng, rng.randint(24, 32), 7)
        judge(case, lengths_of(ask, case), sorted_yields)
    return "the lengths yield as much as the best of all allocations, on every staircase"


def judge(case: Case, lengths: Sequence[int], yields_of: Callable[[Blocks], list[float]]) -> None:
    """Raise Rejected, in words, unless the lengths are the best ones."""
    budget, old = sum(lengths), yields_of(case.old)
    thetas = throughputs(old, case)
    if not _close(thetas[budget], max(thetas)):
        raise Rejected(_why_budget(case, budget, thetas, yields_of))
    got, best = tokens_of(case.now, lengths), yields_of(case.now)[budget]
    if _close(got, best):
        return
    if _close(tokens_of(case.old, lengths), old[budget]):
        raise Rejected(
            "the budget is shared out by the old confidences: only its size comes from them, who "
            "gets it is settled by the current ones"
        )
    raise Rejected(
        f"the budget is right, but shared out otherwise its drafts would yield "
        f"{100 * (best / got - 1):.1f} % more expected tokens now"
    )


def _close(got: float, wanted: float) -> bool:
    return math.isclose(got, wanted, rel_tol=REL_TOL)


def _why_budget(
    case: Case, budget: int, thetas: list[float], yields_of: Callable[[Blocks], list[float]]
) -> str:
    """The mistake that this budget is the answer of, as far as it is known."""
    first_fall = next((k for k in range(len(thetas) - 1) if thetas[k + 1] <= thetas[k]), None)
    batch, old = len(case.now), yields_of(case.old)
    drafts_only = [n / max(case.cost_ms[k], 1e-9) for k, n in enumerate(old)]
    known = [
        (
            _argmax(throughputs(yields_of(case.now), case)),
            "the budget is the best for the current confidences: that looks at the drafts it "
            "decides about; its size must come from the old ones",
        ),
        (
            first_fall,
            "the search ends at the first step down: a staircase has several peaks, look at every "
            "budget",
        ),
        (
            _argmax([(n - batch) / case.cost_ms[batch + k] for k, n in enumerate(old)]),
            "each request yields one token for certain, whatever is verified: count it",
        ),
        (
            _argmax([n / (case.cost_ms[batch + k - 1] or 1e-9) for k, n in enumerate(old)]),
            "the cost is looked up one row too low: cost_ms[b] is of b rows in all",
        ),
        (_argmax(drafts_only), "a step has a row for each request beside the drafts: count it"),
        (0, "nothing is verified, although drafts would pay for their rows"),
        (_argmax(old), "everything is verified, whatever a row costs"),
    ]
    fitting = [words for wrong, words in known if wrong == budget]
    if fitting:
        return "; or: ".join(fitting)
    return f"another budget makes {100 * (max(thetas) / thetas[budget] - 1):.1f} % more per ms"


def _argmax(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


# leak


def check_leak(submission: Submission) -> str:
    """The law of the first token stays the target's, and later confidences change nothing."""
    ask, rng = submission.ask(CELL), submission.rng
    _paper(submission.ask(CELL, is_public=True))
    for _ in range(NUM_WORLDS):
        _random_world(ask, rng)
    made, most = map(
        math.fsum, zip(*(_later_confidences(ask, rng) for _ in range(NUM_CHANGES)), strict=True)
    )
    if made < MIN_SHARE * most:
        raise Rejected("it does not look ahead, but what it chooses is not worth it: see best")
    return "the output law is the target's in every world, and nothing that comes later is seen"


def _paper(ask: Question) -> None:
    """Appendix A of arXiv 2607.05147: the second confidence gives the first draft away."""
    target, draft = (0.7, 0.3), (0.5, 0.5)
    for old in ([0.8, 0.9], [0.8, 0.0], [0.0, 0.0], [1.0, 1.0]):
        cases = [Case([old], [[0.8, second]], PAPER_COST_MS) for second in (0.9, 0.0)]
        law = first_token_law(target, draft, [lengths_of(ask, case)[0] for case in cases])
        if not all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(law, target, strict=True)):
            raise Rejected(
                "it looks ahead: in the paper's example the output law becomes "
                f"({law[0]:.2f}, {law[1]:.2f}) instead of (0.70, 0.30)"
            )


def _random_world(ask: Question, rng: random.Random) -> None:
    """Two requests; the later confidences of the first one depend on its first draft."""
    target, draft = _law(rng), _law(rng)
    survives = math.fsum(map(min, target, draft))
    other = confidences(rng, 2)
    old, cost_ms = [confidences(rng, 3), confidences(rng, 2)], staircase(rng, 7)
    lengths = []
    for _ in draft:
        seen = [rng.choice((0.0, 1.0, rng.random())) for _ in range(2)]
        case = Case(old, [[survives, *seen], other], cost_ms)
        lengths.append(lengths_of(ask, case)[0])
    law = first_token_law(target, draft, lengths)
    if not all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(law, target, strict=True)):
        raise Rejected(
            "it looks ahead: whether a draft is verified depends on confidences that were computed "
            "from that draft, and the law of the first token is no longer the target's"
        )


def _law(rng: random.Random) -> list[float]:
    weights = [rng.uniform(0.1, 1) for _ in range(3)]
    return [weight / sum(weights) for weight in weights]


def _later_confidences(ask: Question, rng: random.Random) -> tuple[float, float]:
    """Draft j of a block is verified or not by c_1 .. c_j; ties of any kind occur. Returns the
    throughput by the old confidences, and the best one."""

    values = (0.5, 1.0, rng.choice((0.5, rng.random())))

    def block() -> list[float]:
        return [rng.choice(values) for _ in range(4)]

    old, now = [block() for _ in range(3)], [block() for _ in range(3)]
    cost_ms = staircase(rng, 15)
    request, place = rng.randrange(3), rng.randrange(3)
    changed = [list(b) for b in now]
    changed[request][place + 1 :] = [rng.choice((0.0, 0.5, 1.0)) for _ in range(3 - place)]
    lengths, other = (lengths_of(ask, Case(old, blocks, cost_ms)) for blocks in (now, changed))
    if (lengths[request] > place) != (other[request] > place):
        raise Rejected(
            "it looks ahead: a confidence behind a draft changes whether that draft is verified "
            "(ties go by position and request, never by what comes later)"
        )
    thetas = throughputs(sorted_yields(old), Case(old, now, cost_ms))
    return thetas[sum(lengths)], max(thetas)


# boundary


def check_boundary(submission: Submission) -> str:
    """Edges of the contract; one rejection names all that failed."""
    ask, rng = submission.ask(CELL), submission.rng
    parts = (_nothing_to_verify, _extremes, _ties, _refuses, _changes_no_input, _has_no_memory)
    try_all(parts, ask, rng)
    return "empty batches and blocks, ties, sure and hopeless drafts and bad input are handled"


def _nothing_to_verify(ask: Question, rng: random.Random) -> None:
    if lengths_of(ask, Case([], [], [0.0])):
        raise Rejected("without requests there are no lengths")
    if any(lengths_of(ask, Case([[], []], [[], []], [0.0, 1.0, 2.0]))):
        raise Rejected("a request without drafts has length 0")


def _extremes(ask: Question, rng: random.Random) -> None:
    drafts, flat = [[1.0] * 3, [1.0] * 2], [0.0] + [rng.uniform(2, 5)] * 7
    if lengths_of(ask, Case(drafts, drafts, flat)) != [3, 2]:
        raise Rejected("sure drafts at no cost are all verified, to the last row of the table")
    steep = [0.0, *accumulate(2.0**rows for rows in range(7))]
    if any(lengths_of(ask, Case(drafts, drafts, steep))):
        raise Rejected("where rows cost more than drafts yield, nothing is verified")


def _ties(ask: Question, rng: random.Random) -> None:
    """Powers of two, so that equal is equal."""
    for old, now, cost_ms in (
        ([[0.0, 0.0]], [[1.0, 1.0]], [0.0, 4.0, 4.0, 4.0]),
        ([[0.5]], [[1.0]], [0.0, 1.0, 1.5]),
    ):
        if any(lengths_of(ask, Case(old, now, cost_ms))):
            raise Rejected("of budgets with the same throughput the smallest is right")
    budget_of_two = [0.0, 9.0, 9.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0]
    old = [[0.5, 0.5], [1.0, 1.0], [0.5, 0.5]]
    now = [[0.25, 1.0], [0.5, 0.5], [0.5, 0.5]]
    if lengths_of(ask, Case(old, now, budget_of_two)) != [0, 1, 1]:
        raise Rejected("the likeliest drafts are verified, not those of the first requests")
    if lengths_of(ask, Case(old, [[0.5, 1.0]] * 3, budget_of_two)) != [1, 1, 0]:
        raise Rejected("equal survivals go by position, then by request")


def _refuses(ask: Question, rng: random.Random) -> None:
    some, times = [[0.5, 0.5]], [0.0, 1.0, 1.0, 1.0]
    bad = {
        "old and now of different numbers of requests": ([], some, times),
        "a request with different numbers of drafts in old and now": ([[0.5]], some, times),
        "a confidence above 1": (some, [[0.5, 1.5]], times),
        "an old confidence above 1": ([[1.5, 0.5]], some, times),
        "a confidence below 0": (some, [[-0.5, 0.5]], times),
        "a cost table that ends before the most rows": (some, some, times[:-1]),
    }
    for what, arguments in bad.items():
        ask.must_refuse(LENGTHS, what, *arguments)


def _changes_no_input(ask: Question, rng: random.Random) -> None:
    case = random_case(rng, 3)
    if ask.call(LENGTHS, *case.arguments).args != case.arguments:
        raise Rejected(f"{LENGTHS} changes the lists that it is given")


def _has_no_memory(ask: Question, rng: random.Random) -> None:
    some = [random_case(rng, 3) for _ in range(6)]
    first = [lengths_of(ask, case) for case in some]
    if [lengths_of(ask, case) for case in reversed(some)] != first[::-1]:
        raise Rejected(f"{LENGTHS} gives another answer to the same question after other calls")


CHECKS: dict[str, Callable[[Submission], str]] = {
    "best": check_best,
    "leak": check_leak,
    "boundary": check_boundary,
}
