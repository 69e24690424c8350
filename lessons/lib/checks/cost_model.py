"""The checks' own cost model of a speculative method, its test inputs and its known mistakes.

Written apart from the lesson's solution, so that a slip in one does not hide in the other.
"""

import itertools
import math
import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Method = dict[str, Any]
NUM_TABLES_PER_PURPOSE = 4
CLEAR = 1e-6  # relative distance between two speedups that no rounding can close


def survivals(conditional: Sequence[float]) -> list[float]:
    """S_k, the chance that draft tokens 1..k are all accepted, from the conditional rates."""
    return list(itertools.accumulate(conditional, operator.mul))


def expected_tokens(conditional: Sequence[float]) -> float:
    """Tokens a round yields: the accepted drafts and the one that the target adds."""
    return 1.0 + math.fsum(survivals(conditional))


def speedup(method: Method, baseline_ms_per_token: float) -> float:
    """Predicted speedup over target-only decoding."""
    round_ms = method["draft_ms"] + method["verify_ms"] + method["overhead_ms"]
    return expected_tokens(method["conditional_acceptance"]) * baseline_ms_per_token / round_ms


def choose(methods: Sequence[Method], baseline_ms: float, budget_gb: float) -> tuple[str, float]:
    """The best method within the memory budget, or ("baseline", 1.0)."""
    fitting = [m for m in methods if m["extra_memory_gb"] <= budget_gb]
    rated = [("baseline", 1.0), *((m["name"], speedup(m, baseline_ms)) for m in fitting)]
    return max(rated, key=lambda pair: pair[1])


def is_clear(methods: Sequence[Method], baseline_ms: float, budget_gb: float) -> bool:
    """No two candidates, the baseline among them, are so close that rounding could decide."""
    rates = [speedup(m, baseline_ms) for m in methods if m["extra_memory_gb"] <= budget_gb]
    ranked = sorted([1.0, *rates])
    return all(b - a > CLEAR * b for a, b in itertools.pairwise(ranked))


# Formulas that students write, and what is wrong with each.
MISTAKES: tuple[tuple[Callable[[Sequence[float]], float], str], ...] = (
    (
        lambda a: 1.0 + sum(a),
        "each term needs the survival of all positions before it, not its own rate alone",
    ),
    (
        lambda a: sum(survivals(a)),
        "the token that the target adds in every round (replacement or bonus) is not counted",
    ),
    (
        lambda a: 1.0 + math.prod(a),
        "only the survival of the last position is counted: add one term for every position",
    ),
    (
        lambda a: 1.0 + sum([1.0, *survivals(a)][:-1]),
        "the survival is added before it is updated with the position's own rate",
    ),
    (
        lambda a: 1.0 + len(a),
        "every position is counted as accepted, whatever its rate",
    ),
    (
        lambda a: 1.0 + sum(survivals(a)[1:]),
        "the first position is left out of the sum",
    ),
    (
        lambda a: 1.0 + sum(survivals(a)[:-1]),
        "the last position is left out of the sum",
    ),
    (
        lambda a: 1.0 + sum(x * y for x, y in zip(a, [1.0, *a], strict=False)),
        "a term holds only the position and the one before it: all earlier ones must survive",
    ),
    (
        lambda a: 1.0 + sum((math.fsum(a) / len(a)) ** (k + 1) for k in range(len(a))),
        "positions have different rates: a power of their mean is not their product",
    ),
)


def diagnose(answers: Sequence[tuple[list[float], float]]) -> str | None:
    """What is wrong with (input, answer) pairs; None if nothing is. Shows no input."""
    if all(_same(got, expected_tokens(rates)) for rates, got in answers):
        return None
    for formula, sentence in MISTAKES:
        if all(_same(got, formula(rates) if rates else got) for rates, got in answers):
            return sentence
    rates, got = min(
        ((r, g) for r, g in answers if not _same(g, expected_tokens(r))), key=lambda p: len(p[0])
    )
    size = "small" if got < expected_tokens(rates) else "large"
    return f"with conditional acceptance of {len(rates)} positions the result is too {size}"


def _same(got: float, expected: float) -> bool:
    return math.isclose(got, expected, rel_tol=1e-9)


Rate = Callable[[Method, float], float]
Rule = Callable[[Sequence[Method], float, float], str]


def _rated(
    methods: Sequence[Method], baseline_ms: float, budget_gb: float
) -> list[tuple[str, float]]:
    """The methods that fit, with their speedups, in the order of the table."""
    fitting = [m for m in methods if m["extra_memory_gb"] <= budget_gb]
    return [(m["name"], speedup(m, baseline_ms)) for m in fitting]


def _best_if(fits: Callable[[float, float], bool] = operator.le, rate: Rate = speedup) -> Rule:
    """The rule that chooses with another idea of what fits, or of what is good."""

    def rule(methods: Sequence[Method], baseline_ms: float, budget_gb: float) -> str:
        fitting = [m for m in methods if fits(m["extra_memory_gb"], budget_gb)]
        rated = [(m["name"], rate(m, baseline_ms)) for m in fitting]
        return max([("baseline", 1.0), *rated], key=lambda pair: pair[1])[0]

    return rule


def _winners(methods: Sequence[Method], baseline_ms: float, budget_gb: float) -> list[str]:
    rated = _rated(methods, baseline_ms, budget_gb)
    return [name for name, rate in rated if rate > 1.0] or ["baseline"]


def _without(phase: str) -> Rate:
    return lambda method, baseline_ms: speedup({**method, phase: 0.0}, baseline_ms)


def _until_misfit(methods: Sequence[Method], baseline_ms: float, budget_gb: float) -> str:
    first = itertools.takewhile(lambda m: m["extra_memory_gb"] <= budget_gb, methods)
    return choose(list(first), baseline_ms, budget_gb)[0]


# Rules of choice that students write, and what is wrong with each.
MISTAKEN_RULES: tuple[tuple[Rule, str], ...] = (
    (
        _best_if(fits=lambda memory, budget: True),
        "a method that needs more memory than the budget must not be chosen",
    ),
    (
        _best_if(fits=operator.lt),
        "a method that needs exactly the memory budget is allowed",
    ),
    (_until_misfit, "a method that does not fit must not end the search"),
    (lambda *table: _winners(*table)[0], "the best method must be chosen, not the first good one"),
    (lambda *table: _winners(*table)[-1], "the best method must be chosen, not the last good one"),
    (
        lambda *table: max(_rated(*table) or [("baseline", 1.0)], key=lambda pair: pair[1])[0],
        'when no method beats the baseline, ("baseline", 1.0) must be returned',
    ),
    (
        _best_if(rate=_without("overhead_ms")),
        "the overhead belongs to the time of a round",
    ),
    (
        _best_if(rate=_without("draft_ms")),
        "the draft time belongs to the time of a round",
    ),
    (
        _best_if(rate=_without("verify_ms")),
        "the verify time belongs to the time of a round",
    ),
    (
        _best_if(rate=lambda method, _: expected_tokens(method["conditional_acceptance"])),
        "tokens per round alone do not decide: the time of a round counts as well",
    ),
)


def diagnose_choices(answers: Sequence[tuple["Table", tuple[str, float]]]) -> str | None:
    """What is wrong with (table, choice) pairs; None if nothing is. Shows no input."""
    right = [choose(*table.arguments) for table, _ in answers]
    names = [got[0] for _, got in answers]
    if names != [name for name, _ in right]:
        for rule, sentence in MISTAKEN_RULES:
            if names == [rule(*table.arguments) for table, _ in answers]:
                return sentence
        return "not every choice is the best method that fits into the memory budget"
    if all(_same(got[1], expected[1]) for (_, got), expected in zip(answers, right, strict=True)):
        return None
    return (
        "the name is right and the speedup is not: it is tokens per round times the baseline's"
        " time per token, over the time of a round"
    )


def random_rates(rng: random.Random, length: int) -> list[float]:
    """Conditional acceptance per position; the ends 0 and 1 occur too."""
    return [rng.choice((0.0, 1.0)) if rng.random() < 0.06 else rng.random() for _ in range(length)]


@dataclass(frozen=True)
class Table:
    """A table of methods for `choose_spec_method`, with a baseline and a budget."""

    methods: list[Method]
    baseline_ms: float
    budget_gb: float

    @property
    def arguments(self) -> tuple[list[Method], float, float]:
        """In the order of `choose_spec_method`."""
        return self.methods, self.baseline_ms, self.budget_gb


def random_table(rng: random.Random, purpose: str) -> Table:
    """A table in which the purpose decides the choice, and rounding cannot."""
    while True:
        table = _draw(rng, purpose)
        if is_clear(*table.arguments):
            return table


def random_tables(rng: random.Random) -> list[Table]:
    """Tables of every purpose, and as many more as it takes that no known mistake gets through."""
    tables = [random_table(rng, purpose) for purpose in PURPOSES * NUM_TABLES_PER_PURPOSE]
    for rule, _ in MISTAKEN_RULES:
        while all(rule(*t.arguments) == choose(*t.arguments)[0] for t in tables):
            tables.append(random_table(rng, rng.choice(PURPOSES)))
    return tables


# What decides the choice in a table.
PURPOSES = ("best", "over_budget", "at_budget", "none_faster", "phases")


def _draw(rng: random.Random, purpose: str) -> Table:
    budget = rng.randint(8, 40) / 4  # quarters are exact in binary: the budget's edge is an edge
    baseline = rng.uniform(5.0, 50.0)
    methods = [_method(rng, baseline, budget) for _ in range(rng.randint(2, 5))]
    star = rng.choice(methods)
    if purpose in ("over_budget", "at_budget"):
        star["conditional_acceptance"] = [rng.uniform(0.9, 1.0) for _ in range(6)]
        star["extra_memory_gb"] = budget if purpose == "at_budget" else budget + 0.25
    if purpose == "phases":  # cheap in two phases, so dear in the third that the choice changes
        star["conditional_acceptance"] = [rng.uniform(0.9, 1.0) for _ in range(6)]
        star[rng.choice(("draft_ms", "verify_ms", "overhead_ms"))] *= 40.0
    if purpose == "none_faster":
        for method in methods:
            method["verify_ms"] *= 30.0
    return Table(methods, baseline, budget)


def _method(rng: random.Random, baseline: float, budget: float) -> Method:
    return {
        "name": "m" + "".join(rng.choices("abcdefghijkmnpqrstuvwxyz", k=6)),
        "conditional_acceptance": [rng.uniform(0.2, 0.95) for _ in range(rng.randint(1, 7))],
        "draft_ms": baseline * rng.uniform(0.05, 0.3),
        "verify_ms": baseline * rng.uniform(1.0, 1.3),
        "overhead_ms": baseline * rng.uniform(0.05, 0.2),
        "extra_memory_gb": rng.randint(1, int(budget * 4)) / 4,
    }
