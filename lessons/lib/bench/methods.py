"""What the words of `--methods` mean, and how the engine is paced for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernels.runtime import InputError
from lessons.lib.bench.pace import AUTO, COMPACT, PLANNED, adaptive_depth, planner_pacing
from lessons.lib.bench.run import MethodSpec
from lessons.lib.cost_profile import StepProfile
from lessons.lib.draft.registry import TARGET_ONLY, check_method, ready_methods
from lessons.lib.pacing import Pacing

Json = dict[str, Any]


def parse_methods(words: Sequence[str] | None, depth: int) -> list[MethodSpec]:
    """Target-only first, then what was asked for; None asks for every method that is ready."""
    names = words or [name for name in ready_methods() if name != TARGET_ONLY]
    asked = [method_spec(name, depth) for name in names]
    return list(dict.fromkeys([MethodSpec(TARGET_ONLY, 0), *asked]))


def method_spec(word: str, depth: int) -> MethodSpec:
    """ "ngram:8", "ngram" at the depth given, "ngram:auto" with a controller of the depth, or
    "dspark:compact" and "dspark:5:compact" with a planner. InputError for all else."""
    method, *rest = word.split(":")
    check_method(method)
    if rest == [AUTO] and method != TARGET_ONLY:
        return MethodSpec(method, adaptive_depth()[1], is_adaptive=True)
    is_planned = rest[-1:] == [COMPACT]
    if is_planned and method not in PLANNED:
        raise InputError(
            f"method {word!r}: only {', '.join(PLANNED)} drafts with confidences to plan by"
        )
    own = rest[:-1] if is_planned else rest
    if len(own) > 1 or not all(part.isdigit() for part in own):
        raise InputError(
            f"method {word!r}: behind the colon stands a whole number, {AUTO} or {COMPACT}"
        )
    depth = int(own[0]) if own else depth
    if method == TARGET_ONLY:
        return MethodSpec(TARGET_ONLY, 0)
    if depth < 1:
        raise InputError(f"method {word!r}: the depth must be 1 or more")
    return MethodSpec(method, depth, is_planned=is_planned)


def pacing_of(spec: MethodSpec, profile: Json | None) -> Pacing:
    """Fresh for each run: controllers and planners remember what they saw.

    profile: as `step_profile.measure_profile` gives it; needed for a planned method.
    """
    if spec.is_adaptive:
        return adaptive_depth()[0]
    if not spec.is_planned:
        return Pacing()
    if not profile or not profile["times_ms"]:
        raise InputError(f"{spec.name} plans by step times, and here none were measured")
    beside = dict(zip(profile["batches"], profile["beside_ms"][spec.name], strict=True))
    return planner_pacing(StepProfile.from_ledger(profile), beside, spec.depth)
