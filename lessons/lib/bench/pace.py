"""Pacing for requests that are run one at a time, as the command line asks for it.

What a step costs is measured here, on the machine and the model that will run it: DSpark's budget
is only as good as its table.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from kernels.runtime import InputError
from lessons.lib.bench.run import step_cost
from lessons.lib.cost_profile import StepProfile
from lessons.lib.draft.adaptive import DEFAULT_CANDIDATES, AdaptiveDepth
from lessons.lib.draft.dspark_budget import BudgetRule
from lessons.lib.draft.dspark_planner import VerifyMode, VerifyPlanner
from lessons.lib.draft.proposer import Proposer
from lessons.lib.engine import Engine
from lessons.lib.pacing import Pacing

AUTO = "auto"
MODES = tuple(mode.value for mode in VerifyMode)
_PROBE_TOKENS = 24  # of the text that times drafting


def adaptive_depth() -> tuple[Pacing, int]:
    """A fresh controller, and the most drafts it may ever ask of one request."""
    return Pacing(depth_policy=AdaptiveDepth()), max(DEFAULT_CANDIDATES[1])


def planned_verification(
    engine: Engine, make_proposer: Callable[[], Proposer | None], depth: int, mode: str
) -> Pacing:
    """DSpark's planner in a mode, over measured step times.

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
    beside = _beside_ms(engine, make_proposer(), depth)
    rule = BudgetRule(profile.rows_ms, lambda _batch: beside)
    return Pacing(verify_planner=VerifyPlanner(rule, VerifyMode(mode)))


def _beside_ms(engine: Engine, proposer: Proposer | None, depth: int) -> float:
    """Median ms that a round takes beside its forward, whatever of the block is verified."""
    vocab = engine.model.config.vocab_size
    prompt = [token % vocab for token in range(8)]
    result = engine.generate(prompt, _PROBE_TOKENS, None, proposer, depth, ignore_eos=True)
    return statistics.median(r.draft_ms + r.overhead_ms for r in result.rounds)
