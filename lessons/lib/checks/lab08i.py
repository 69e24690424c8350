"""Lab 8I: does the student's benchmark say what happened?"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from lessons.lib.checks.asking import (
    Question,
    Rejected,
    Submission,
    a_type,
    as_number,
    try_all,
)
from lessons.lib.checks.event_logs import (
    LATENCIES,
    Figures,
    Log,
    draw_log,
    draw_slo,
    judge_goodput,
    judge_latencies,
    request,
)
from lessons.lib.checks.ledger_faults import FAULTS, Points, draw_points, judge_faults, plant
from lessons.lib.checks.load_curves import draw_curve, judge_crossing

FIGURES, CROSSING, FIND = "serving_figures", "crossing_load", "find_faults"
NUM_LOGS, NUM_CURVES, NUM_LEDGERS = 16, 40, 120


def figures_of(ask: Question, log: Log, slo: dict[str, float]) -> Figures:
    """What `serving_figures` returned, checked against its contract. Raises Rejected."""
    value = ask.call(FIGURES, log, slo).value
    if not isinstance(value, dict):
        raise Rejected(f"{FIGURES} returned {a_type(value)}, not a dict")
    for name in (*LATENCIES, "goodput_rps"):
        if name not in value:
            raise Rejected(f"{FIGURES} returned a dict without {name!r}")
    figures: Figures = {"goodput_rps": as_number(value["goodput_rps"], "goodput_rps")}
    for name in LATENCIES:
        if not isinstance(value[name], list | tuple):
            raise Rejected(f"{name} is {a_type(value[name])}, not a list")
        figures[name] = [as_number(number, f"{name} of {FIGURES}") for number in value[name]]
    return figures


def crossing_of(ask: Question, loads: list[int], ratios: list[list[float]]) -> float | None:
    """What `crossing_load` returned. Raises Rejected."""
    value = ask.call(CROSSING, loads, ratios).value
    return None if value is None else as_number(value, CROSSING)


def faults_of(ask: Question, points: Points) -> list[str]:
    """What `find_faults` returned, checked against its contract. Raises Rejected."""
    value = ask.call(FIND, points).value
    if not isinstance(value, list | tuple):
        raise Rejected(f"{FIND} returned {a_type(value)}, not a list of names")
    for name in value:
        if not isinstance(name, str) or name not in FAULTS:
            raise Rejected(f"{FIND} returned something that is none of the names of faults")
    if list(value) != sorted(set(value)):
        raise Rejected("the names must be in alphabetical order, each once")
    return list(value)


def check_figures(submission: Submission) -> str:
    """TTFT, TPOT and ITL of drawn logs, value by value."""
    ask, rng = submission.ask(FIGURES), submission.rng
    for number in range(NUM_LOGS):
        log = draw_log(rng, rng.randint(6, 14), is_open=number % 2 == 0)
        judge_latencies(figures_of(ask, log, draw_slo(rng, log)), log)
    return "TTFT, TPOT and ITL are those of the streams"


def check_goodput(submission: Submission) -> str:
    """Requests per second that kept every limit, for all kinds of SLO."""
    ask, rng = submission.ask(FIGURES), submission.rng
    for number in range(NUM_LOGS):
        log = draw_log(rng, rng.randint(8, 16), is_open=number % 2 == 0)
        for num_limits in (1, 2, 3):
            slo = draw_slo(rng, log, num_limits)
            judge_goodput(figures_of(ask, log, slo)["goodput_rps"], log, slo)
    _exactly_at_the_limit(ask)
    return "goodput counts the requests that kept every limit, over the whole run"


def _exactly_at_the_limit(ask: Question) -> None:
    log = [request(0.0, 2.0, [(0.25, 1), (1.25, 4)])]  # powers of two: no rounding
    for name, limit in (("ttft_ms", 250.0), ("tpot_ms", 250.0), ("e2e_ms", 2000.0)):
        if figures_of(ask, log, {name: limit})["goodput_rps"] != 0.5:
            raise Rejected(f"a request whose {name} is exactly the limit keeps it")


def check_crossing(submission: Submission) -> str:
    """Where drawn curves fall below 1, some never and some from the start."""
    ask, rng = submission.ask(CROSSING), submission.rng
    for number in range(NUM_CURVES):
        loads, ratios = draw_curve(rng, number)
        judge_crossing(crossing_of(ask, loads, ratios), loads, ratios)
    return "the load at which the speedup first falls below 1"


def check_faults(submission: Submission) -> str:
    """Drawn ledgers with some faults planted and others not."""
    ask, rng = submission.ask(FIND), submission.rng
    for number in range(NUM_LEDGERS):
        points = draw_points(rng)
        names = rng.sample(FAULTS, rng.choice((1, 1, 2, 3)) if number % 4 else 0)
        for name in names:
            plant(name, points, rng)
        judge_faults(faults_of(ask, points), points)
    return "every planted fault is found, and clean ledgers stay clean"


def check_boundary(submission: Submission) -> str:
    """Edges of the contracts; one rejection names all that failed."""
    try_all((_empty_streams, _refuses, _changes_no_input, _has_no_memory), submission)
    return "streams without tokens, single chunks and impossible input are handled"


def _empty_streams(submission: Submission) -> None:
    ask = submission.ask(FIGURES)
    silent, whole = request(0.0, 1.0, []), request(0.0, 2.0, [(1.0, 8)])
    figures = figures_of(ask, [silent, whole], {"ttft_ms": 2000.0})
    if figures["ttft_ms"] != [1000.0] or figures["tpot_ms"] or figures["itl_ms"]:
        raise Rejected("a figure that a stream does not have is left out of the list, never 0")
    if figures["goodput_rps"] != 0.5:
        raise Rejected("a request that never answered breaks a TTFT limit")
    if figures_of(ask, [whole], {"tpot_ms": 1.0})["goodput_rps"] != 0.5:
        raise Rejected("a request whose tokens came at once cannot break a TPOT limit")


def _refuses(submission: Submission) -> None:
    figures, log = submission.ask(FIGURES), [request(0.0, 1.0, [(0.5, 1)])]
    figures.must_refuse(FIGURES, "an empty log", [], {"ttft_ms": 1.0})
    figures.must_refuse(FIGURES, "an SLO without limits", log, {})
    bad: dict[str, tuple[list[int], list[list[float]]]] = {
        "a single load": ([1], [[1.5]]),
        "loads that do not go up": ([4, 2], [[1.5], [0.5]]),
        "lists of different lengths": ([1, 2, 4], [[1.5], [0.5]]),
        "a load without a ratio": ([1, 2], [[1.5], []]),
    }
    for what, arguments in bad.items():
        submission.ask(CROSSING).must_refuse(CROSSING, what, *arguments)
    submission.ask(FIND).must_refuse(FIND, "a ledger without runs", [])


def _questions(rng: random.Random) -> list[tuple[str, tuple[Any, ...]]]:
    """One call of each function."""
    log = draw_log(rng, 6, is_open=True)
    return [
        (FIGURES, (log, draw_slo(rng, log, 2))),
        (CROSSING, draw_curve(rng, 3)),
        (FIND, (draw_points(rng),)),
    ]


def _changes_no_input(submission: Submission) -> None:
    for name, arguments in _questions(submission.rng):
        before = repr(_listed(arguments))
        after = submission.ask(name).call(name, *arguments).args
        if repr(_listed(after)) != before:
            raise Rejected(f"{name} changes what it is given")


def _listed(value: Any) -> Any:
    """Tuples as lists all the way down."""
    if isinstance(value, dict):
        return {key: _listed(inner) for key, inner in value.items()}
    return [_listed(inner) for inner in value] if isinstance(value, list | tuple) else value


def _has_no_memory(submission: Submission) -> None:
    questions = [one for _ in range(3) for one in _questions(submission.rng)]
    first = [submission.ask(name).call(name, *args).value for name, args in questions]
    for (name, args), before in reversed(list(zip(questions, first, strict=True))):
        if submission.ask(name).call(name, *args).value != before:
            raise Rejected(f"{name} gives another answer to the same question after other calls")


CHECKS: dict[str, Callable[[Submission], str]] = {
    "figures": check_figures,
    "goodput": check_goodput,
    "crossing": check_crossing,
    "faults": check_faults,
    "boundary": check_boundary,
}
