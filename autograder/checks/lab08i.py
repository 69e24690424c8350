"""The graded checks of Lab 8I: the public ones on secret inputs, and the course's own benchmark."""

from collections.abc import Callable

from autograder.checks import live_engine
from autograder.checks.graded import Graded
from lessons.lib.checks.asking import Rejected
from lessons.lib.checks.event_logs import draw_log, judge_goodput, judge_latencies
from lessons.lib.checks.lab08i import (
    CROSSING,
    FIGURES,
    FIND,
    check_boundary,
    check_crossing,
    check_faults,
    check_figures,
    check_goodput,
    crossing_of,
    faults_of,
    figures_of,
)
from lessons.lib.checks.ledger_faults import FAULTS

SLOW = ("live",)


def check_live(graded: Graded) -> str:
    """The grader's engine is benchmarked; the student's figures must be those of the instrument.

    So must the crossing of a simulated sweep, and the fault of a misleading ledger.
    """
    rng = graded.rng
    log = draw_log(rng, 6, is_open=False)
    judge_latencies(figures_of(graded.ask(FIGURES), log, {"ttft_ms": 300.0}), log)
    model, tokenizer = live_engine.model("bfloat16")  # times are looked at, not tokens

    from lessons.lib.bench import audit, bootstrap
    from lessons.lib.bench.latency import Slo, summarise
    from lessons.lib.bench.run import MethodSpec
    from lessons.lib.plugs import lab08i as plug

    run = plug.engine_run(model, tokenizer, MethodSpec("ngram", rng.randint(2, 5)))
    slowest = max(request.e2e_ms for request in run.requests)
    slo = Slo(ttft_ms=slowest, e2e_ms=rng.uniform(0.7, 1.0) * slowest)
    limits = {"ttft_ms": slowest, "e2e_ms": slo.e2e_ms or slowest}
    log = plug.plain_log(run.requests)
    figures = figures_of(graded.ask(FIGURES), log, limits)
    judge_latencies(figures, log)
    judge_goodput(figures["goodput_rps"], log, limits)
    if abs(figures["goodput_rps"] - summarise(run.requests, slo)["goodput_rps"]) > 1e-9:
        raise Rejected("goodput_rps is not the one of the course's own instrument")

    sweep = plug.simulate(seed=rng.randint(4, 99))
    ratios: dict[float, list[float]] = {load: sweep.ratios(load) for load in plug.LOADS}
    point = bootstrap.crossing(ratios).load
    got = crossing_of(graded.ask(CROSSING), list(plug.LOADS), list(ratios.values()))
    if got is None or abs(got - point) > 1e-6 * point:
        raise Rejected("crossing_load is not the one of the course's own instrument")

    name = rng.choice(plug.MISLEADING)
    points = plug.misleading(name).points
    due = [fault for fault in FAULTS if list(audit.RULES[fault]({"points": points}))]
    if faults_of(graded.ask(FIND), plug.plain_points(points)) != due:
        raise Rejected("find_faults and the course's audit disagree on a misleading ledger")
    return (
        f"{len(run.requests)} streams of the engine have the instrument's figures, a simulated "
        f"sweep its crossing, and a misleading ledger its fault"
    )


CHECKS: dict[str, Callable[[Graded], str]] = {
    "figures": check_figures,
    "goodput": check_goodput,
    "crossing": check_crossing,
    "faults": check_faults,
    "boundary": check_boundary,
    "live": check_live,
}
