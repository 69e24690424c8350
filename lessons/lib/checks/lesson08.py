"""Lesson 8: do the cost model and the choice of a method hold, and is each figure's source named?

Each check returns the reason of its pass, or raises Rejected.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from lessons.lib.checks import cost_model
from lessons.lib.checks.asking import (
    HINT_RUN,
    Question,
    Rejected,
    Submission,
    a_type,
    as_number,
    is_close,
    try_all,
)
from lessons.lib.checks.outcome import Outcome
from lessons.lib.checks.source_names import ANSWER_KEYS, NOT_FILLED, IsRight, problems_of

COST_CELL, MAP_CELL = "acceptance_cost_model", "source_objects"
TOKENS, CHOOSE = "expected_tokens_per_round", "choose_spec_method"
# The lesson's own example.
EXAMPLE_RATES = [0.8, 0.7, 0.5]
EXAMPLE_TOKENS = 2.64
EXAMPLE_METHODS = [
    {
        "name": "tree",
        "conditional_acceptance": [0.8, 0.7, 0.5],
        "draft_ms": 3.0,
        "verify_ms": 8.0,
        "overhead_ms": 1.0,
        "extra_memory_gb": 4,
    },
    {
        "name": "block",
        "conditional_acceptance": [0.75, 0.75, 0.7],
        "draft_ms": 1.5,
        "verify_ms": 8.5,
        "overhead_ms": 1.0,
        "extra_memory_gb": 6,
    },
]
NUM_RANDOM_RATES = 40


def as_choice(outcome: Outcome) -> tuple[str, float]:
    """A (name, speedup) pair from what the student returned. Raises Rejected."""
    value = outcome.value
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Rejected(f"{CHOOSE} returned {a_type(value)}, not a pair (name, speedup)")
    if not isinstance(value[0], str):
        raise Rejected(f"{CHOOSE} returned {a_type(value[0])} as the name, not a string")
    return value[0], as_number(value[1], f"{CHOOSE}, as the speedup,")


# main


def check_main(submission: Submission) -> str:
    """The seed's three assertions, then drawn rates and drawn tables of methods."""
    example, ask = submission.ask(COST_CELL, is_public=True), submission.ask(COST_CELL)
    rng = submission.rng
    # The lesson's inputs go first: there the text of an exception may always be shown.
    tokens = example.number(TOKENS, EXAMPLE_RATES)
    options = {"baseline_ms_per_token": 10.0, "memory_budget_gb": 8}
    chosen = as_choice(example.call(CHOOSE, EXAMPLE_METHODS, **options))
    chosen_when_fast = as_choice(example.call(CHOOSE, EXAMPLE_METHODS, 2.0, 5))
    lengths = [*range(13), *(rng.randint(0, 12) for _ in range(NUM_RANDOM_RATES - 13))]
    rates = [cost_model.random_rates(rng, length) for length in lengths]
    problem = cost_model.diagnose([(r, ask.number(TOKENS, r)) for r in rates])
    if problem:
        raise Rejected(f"{TOKENS}: {problem}", hint="hint-survival")
    if abs(tokens - EXAMPLE_TOKENS) >= 1e-12:
        raise Rejected(f"{TOKENS}({EXAMPLE_RATES}) gave {tokens!r}, not {EXAMPLE_TOKENS}")
    tables = cost_model.random_tables(rng)
    choices = [as_choice(ask.call(CHOOSE, *table.arguments)) for table in tables]
    problem = cost_model.diagnose_choices(list(zip(tables, choices, strict=True)))
    if problem:
        raise Rejected(f"{CHOOSE}: {problem}", hint="hint-choice")
    if chosen[0] != "block" or not chosen[1] > 1.0 or chosen_when_fast[0] != "baseline":
        raise Rejected(f"{CHOOSE} does not pass the lesson's own assertions")
    return "right on the lesson's example, and on drawn rates and tables of methods"


# boundary


def check_boundary(submission: Submission) -> str:
    """Edges of the domain, and that calls leave no trace. One rejection names all that failed."""
    ask, rng = submission.ask(COST_CELL), submission.rng
    parts: list[Callable[[Question, random.Random], None]] = [
        _ends_are_allowed,
        _empty_is_one,
        *(partial(_must_refuse, what=what) for what in _INVALID),
        _refuses_inside_choice,
        _nothing_fits,
        _equal_keeps_baseline,
        _takes_tuples,
        _changes_no_input,
        _has_no_memory,
    ]
    try_all(parts, ask, rng)
    return "edges, invalid values, memory limits and repeated calls are handled"


def _expect(ask: Question, rates: Any, what: str) -> None:
    if not is_close(ask.number(TOKENS, rates), cost_model.expected_tokens(rates)):
        raise Rejected(f"{TOKENS} is wrong {what}")


def _ends_are_allowed(ask: Question, rng: random.Random) -> None:
    rates = [1, rng.random(), 1.0, rng.random(), 0, rng.random()]
    _expect(ask, rates, "when a rate is exactly 0 or 1, which are allowed")
    _expect(ask, [0.0, rng.random()], "when the first rate is 0")


def _empty_is_one(ask: Question, rng: random.Random) -> None:
    _expect(ask, [], "for an empty list: a round without a draft still yields one token")


# Not-a-number is not in [0, 1] either: no comparison with it holds.
_INVALID: dict[str, Callable[[random.Random], float]] = {
    "below 0": lambda rng: -rng.uniform(1e-6, 0.5),
    "far below 0": lambda rng: -rng.uniform(1.0, 9.0),
    "above 1": lambda rng: 1.0 + rng.uniform(1e-6, 0.5),
    "far above 1": lambda rng: rng.uniform(2.0, 99.0),
    "nan": lambda rng: float("nan"),
    "infinite": lambda rng: float("inf"),
}


def _must_refuse(ask: Question, rng: random.Random, what: str) -> None:
    """As the only rate, as the first and as a later one: ValueError each time."""
    bad = _INVALID[what](rng)
    fine = [rng.uniform(0.3, 0.9) for _ in range(rng.randint(1, 4))]
    places = {
        "": [bad],
        " in the first place": [bad, *fine],
        " in a later place": [*fine, bad],
        " behind a rate of 0": [0.0, bad],
    }
    for where, rates in places.items():
        ask.must_refuse(TOKENS, f"a rate that is {what}{where}", rates)


def _refuses_inside_choice(ask: Question, rng: random.Random) -> None:
    methods = [_plain_method("first", [0.5]), _plain_method("second", [0.5, 1.5])]
    ask.must_refuse(CHOOSE, "a method with a rate above 1", methods, rng.uniform(5.0, 9.0), 8.0)


def _plain_method(name: str, rates: list[float], **figures: float) -> cost_model.Method:
    times = {"draft_ms": 1.0, "verify_ms": 6.0, "overhead_ms": 1.0, "extra_memory_gb": 1.0}
    return {"name": name, "conditional_acceptance": rates, **times, **figures}


def _require_baseline(ask: Question, methods: list[cost_model.Method], what: str) -> None:
    """At 4 ms per token and 2 GB."""
    name, speedup = as_choice(ask.call(CHOOSE, methods, 4.0, 2.0))
    if name != "baseline" or not is_close(speedup, 1.0):
        raise Rejected(f'{CHOOSE} must return ("baseline", 1.0) {what}')


def _nothing_fits(ask: Question, rng: random.Random) -> None:
    big = [_plain_method(n, [0.9] * 5, extra_memory_gb=2.0 + rng.randint(1, 9)) for n in "ab"]
    _require_baseline(ask, big, "when no method fits into the memory budget")
    _require_baseline(ask, [], "when there is no method at all")


def _equal_keeps_baseline(ask: Question, rng: random.Random) -> None:
    # 2 tokens in 8 ms against 4 ms a token: exactly 1.0, in whatever order one multiplies.
    equal = [_plain_method("equal", [1.0])]
    _require_baseline(ask, equal, "when the best method is exactly as fast as the baseline")


def _takes_tuples(ask: Question, rng: random.Random) -> None:
    _expect(ask, tuple(rng.random() for _ in range(4)), "when the rates come as a tuple")


def _changes_no_input(ask: Question, rng: random.Random) -> None:
    rates = [rng.random() for _ in range(5)]
    if ask.call(TOKENS, rates).args != (rates,):
        raise Rejected(f"{TOKENS} changes the list that it is given")
    table = cost_model.random_table(rng, "best")
    if ask.call(CHOOSE, *table.arguments).args != table.arguments:
        raise Rejected(f"{CHOOSE} changes the methods that it is given")


def _has_no_memory(ask: Question, rng: random.Random) -> None:
    first, other = ([rng.random() for _ in range(n)] for n in (3, 6))
    before = ask.number(TOKENS, first)
    ask.number(TOKENS, other)
    if ask.number(TOKENS, first) != before:
        raise Rejected(f"{TOKENS} gives another result for the same rates after other calls")


# source_map


def check_source_map(submission: Submission, is_right: IsRight | None = None) -> str:
    """A sixth of the point for each key that names one object, and the right one by `is_right`.

    Without `is_right`, as in the notebook, only the form can be judged.
    """
    outcome = submission.student.get(MAP_CELL)
    if not outcome.is_value:
        raise submission.ask(MAP_CELL, is_public=True).rejected(MAP_CELL, outcome)
    if not isinstance(outcome.value, dict):
        raise Rejected(f"{MAP_CELL} is {a_type(outcome.value)}, not the dictionary of the lesson")
    wrong = problems_of(outcome.value, is_right)
    if not wrong:
        return _SOURCES_NAMED if is_right is None else _SOURCES_RIGHT
    if wrong.get(NOT_FILLED) == list(ANSWER_KEYS):
        raise Rejected(f"the blank in cell {MAP_CELL} is not filled in", hint=HINT_RUN)
    num_right = len(ANSWER_KEYS) - sum(map(len, wrong.values()))
    told = [f"{what}: {', '.join(keys)}" for what, keys in wrong.items()]
    goal = "named" if is_right is None else "right"
    reason = f"{num_right} of {len(ANSWER_KEYS)} {goal}; {'; '.join(told)}"
    raise Rejected(reason, points=round(num_right / len(ANSWER_KEYS), 4))


_SOURCES_NAMED = "all six fields name one object; whether it is the right one, the grader judges"
_SOURCES_RIGHT = "all six fields are mapped to an object of the sources"

CHECKS: dict[str, Callable[[Submission], str]] = {
    "main": check_main,
    "boundary": check_boundary,
    "source_map": check_source_map,
}
