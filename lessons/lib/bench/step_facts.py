"""What the steps of a run say of it: what a round took, and what a prompt took."""

from __future__ import annotations

from collections.abc import Sequence

from lessons.lib import metrics
from lessons.lib.metrics import StepRecord


def round_means(steps: Sequence[StepRecord]) -> dict[str, float] | None:
    """Means over the steps in which requests decoded and none prefilled: milliseconds of each
    phase, `requests` a step and its `rows`; None where there was no such step."""
    pure = [step for step in steps if step.rounds and not step.prefilled]
    if not pure:
        return None
    phases = {
        name: sum(step.phase_ms[name] for step in pure) / len(pure) for name in metrics.STEP_PHASES
    }
    return phases | {
        "requests": sum(step.num_requests for step in pure) / len(pure),
        "rows": sum(step.num_rows for step in pure) / len(pure),
    }


def prefill_means(steps: Sequence[StepRecord]) -> dict[str, float] | None:
    """Of a request: `tokens` of its prompt, and `beside_ms`, what prompts took beside the forward
    (a drafter that reads them, say) over what the rounds of those steps take by themselves. None
    where nothing was prefilled. A prompt computed again after a preemption counts again."""
    chunks = [step for step in steps if step.prefilled]
    names = {name for step in chunks for name in step.prefilled}
    if not names:
        return None
    pure = [step for step in steps if step.rounds and not step.prefilled]
    num_rounds = sum(len(step.rounds) for step in pure)
    of_a_round = sum(map(_beside_ms, pure)) / num_rounds if num_rounds else 0.0
    beside = sum(_beside_ms(step) - of_a_round * len(step.rounds) for step in chunks)
    return {
        "tokens": sum(sum(step.prefilled.values()) for step in chunks) / len(names),
        "beside_ms": max(beside, 0.0) / len(names),
    }


def _beside_ms(step: StepRecord) -> float:
    return step.total_ms - step.phase_ms["verify"]
