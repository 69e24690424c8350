"""Pacing as the command line asks for it: an adaptive depth, or DSpark's planner.

What a step costs is measured on the machine and the model that will run it: DSpark's budget is only
as good as its table. DSpark shortens verification and never drafting; whether to draft at all is
another question, a server's, and is answered here by the controller of the depth, which knows only
off and the whole block.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

import numpy as np

from kernels.runtime import InputError
from lessons.lib.bench.step_times import step_cost
from lessons.lib.cost_profile import StepProfile
from lessons.lib.draft.adaptive import DEFAULT_CANDIDATES, AdaptiveDepth
from lessons.lib.draft.dspark_budget import BudgetRule
from lessons.lib.draft.dspark_planner import VerifyMode, VerifyPlanner
from lessons.lib.draft.proposer import Proposer
from lessons.lib.engine import Engine
from lessons.lib.pacing import Pacing

AUTO = "auto"
COMPACT = VerifyMode.COMPACT.value
PLANNED = ("dspark",)  # methods whose drafts come with confidences
MODES = tuple(mode.value for mode in VerifyMode)
_PROBE_TOKENS = 24  # of the text that times drafting


def adaptive_depth() -> tuple[Pacing, int]:
    """A fresh controller, and the most drafts it may ever ask of one request."""
    return Pacing(depth_policy=AdaptiveDepth()), max(DEFAULT_CANDIDATES[1])


def planned_verification(
    engine: Engine, make_proposer: Callable[[], Proposer | None], depth: int, mode: str
) -> Pacing:
    """DSpark's planner in a mode for requests that are run one at a time, over step times that are
    measured now.

    make_proposer: fresh ones of the method, for the probe that times drafting. Raises InputError
    for an unknown mode, and where the method's proposals come without confidences.
    """
    if mode not in MODES:
        raise InputError(f"unknown pacing {mode!r}; choose one of {', '.join(MODES)}")
    if mode == VerifyMode.STATIC:
        return Pacing()
    context = min(256, engine.model.config.max_context // 2)
    times = step_cost(engine.model, (1,), range(1, depth + 2), context)
    profile = StepProfile.from_samples(times)
    return planner_pacing(profile, {1: beside_ms(engine, make_proposer, depth)}, depth, mode)


def planner_pacing(
    profile: StepProfile, beside: Mapping[int, float], depth: int, mode: str = COMPACT
) -> Pacing:
    """A fresh planner over known times. profile must hold every batch and row count that may come.

    beside: of a step, by batch (`beside_ms`); between two batches on the line through them. In mode
    compact a controller may turn drafting off for a while; in the others blocks are always drafted.
    """
    batches = sorted(beside)
    known = [beside[batch] for batch in batches]
    rule = BudgetRule(profile.rows_ms, lambda batch: float(np.interp(batch, batches, known)))
    planner = VerifyPlanner(rule, VerifyMode(mode))
    gate = AdaptiveDepth({1: (0, depth)}) if mode == COMPACT else None
    return Pacing(gate, planner)


def beside_ms(
    engine: Engine, make_proposer: Callable[[], Proposer | None], depth: int, batch: int = 1
) -> float:
    """Median ms that a step of `batch` requests takes beside its forward, whatever of the blocks is
    verified. Measured on short texts; the engine must have no other work."""
    vocab = engine.model.config.vocab_size
    names = [
        engine.add_request(
            [(first + token) % vocab for token in range(8)],
            _PROBE_TOKENS,
            proposer=make_proposer(),
            depth=depth,
            ignore_eos=True,
        )
        for first in range(batch)
    ]
    steps = []
    while engine.has_work:
        steps.append(engine.step())
    for name in names:
        engine.take_result(name)
    full = [step for step in steps if len(step.rounds) == batch and not step.prefilled]
    return statistics.median(step.total_ms - step.phase_ms["verify"] for step in full)
