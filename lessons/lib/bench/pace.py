"""Pacing as the command line asks for it: an adaptive depth, or DSpark's planner.

What a step costs is measured on the machine and the model that will run it: DSpark's budget is only
as good as its table.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

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
    return planner_pacing(profile, beside_ms(engine, make_proposer(), depth), mode)


def planner_pacing(profile: StepProfile, round_beside_ms: float, mode: str = COMPACT) -> Pacing:
    """A fresh planner over known times. profile must hold every batch and row count that may come.

    round_beside_ms: of one request alone (`beside_ms`). Requests draft one after another, so a
    batch takes as often as much.
    """
    rule = BudgetRule(profile.rows_ms, lambda batch: batch * round_beside_ms)
    return Pacing(verify_planner=VerifyPlanner(rule, VerifyMode(mode)))


def beside_ms(engine: Engine, proposer: Proposer | None, depth: int) -> float:
    """Median ms that a round of one request takes beside its forward, whatever of the block is
    verified. Measured on a short text; the engine must have no other work."""
    vocab = engine.model.config.vocab_size
    prompt = [token % vocab for token in range(8)]
    result = engine.generate(prompt, _PROBE_TOKENS, None, proposer, depth, ignore_eos=True)
    return statistics.median(r.draft_ms + r.overhead_ms for r in result.rounds)
