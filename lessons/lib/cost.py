"""What a round of speculative decoding should yield and cost: chains of drafts.

Symbols, everywhere here: survival S_k = probability that the first k drafts of a round are all
accepted; depth = drafts per round; tokens per round count the bonus or recovered token; times are
milliseconds; `batch` counts requests. Trees are in cost_tree.py, measured step times in
cost_profile.py. All functions raise InputError for values that cannot be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from kernels.runtime import InputError

SURE = 1.0  # an acceptance or a survival at which every draft is kept


def survival_curve(conditional_acceptance: Sequence[float]) -> list[float]:
    """S_1, S_2, ... from alpha_k, the acceptance at k of drafts whose predecessors survived.

    Section 3.1 of arXiv 2211.17192 takes one alpha for all; rounds differ, so alphas here must be
    measured on survivors: the product of means over all rounds is not the mean of products.
    """
    for alpha in conditional_acceptance:
        _check_share("acceptance", alpha)
    return list(accumulate(conditional_acceptance, mul))


def expected_tokens(conditional_acceptance: Sequence[float]) -> float:
    """Tokens per round, 1 + sum of S_k (arXiv 2211.17192, equation 1, before alpha is constant)."""
    return 1.0 + math.fsum(survival_curve(conditional_acceptance))


def leviathan_tokens(alpha: float, depth: int) -> float:
    """Tokens per round at constant acceptance (arXiv 2211.17192, equation 1)."""
    _check_share("acceptance", alpha)
    _check_depth(depth)
    return depth + 1.0 if alpha == SURE else (1 - alpha ** (depth + 1)) / (1 - alpha)


def leviathan_speedup(alpha: float, depth: int, cost_ratio: float) -> float:
    """Wall-time gain over plain decoding (arXiv 2211.17192, theorem 3.8).

    cost_ratio: time of one draft step over one target step. Verification is taken to cost one
    target step at any depth, which holds while reading weights dominates.
    """
    _check_ratio(cost_ratio)
    return leviathan_tokens(alpha, depth) / (depth * cost_ratio + 1)


def leviathan_optimum(alpha: float, cost_ratio: float) -> tuple[int, float]:
    """(depth, gain) of the best depth; (0, 1.0) where acceptance does not exceed the cost ratio.

    Corollary 3.9 of arXiv 2211.17192: a gain exists exactly if alpha > cost_ratio. The gain has one
    peak in depth, so the search ends at the first step down.
    """
    _check_share("acceptance", alpha)
    _check_ratio(cost_ratio)
    if alpha <= cost_ratio:
        return 0, 1.0
    if cost_ratio == 0 or alpha == SURE:
        raise InputError(
            f"acceptance {alpha} at cost ratio {cost_ratio} has no best depth: deeper always wins"
        )
    depth = 1
    while leviathan_speedup(alpha, depth + 1, cost_ratio) > leviathan_speedup(
        alpha, depth, cost_ratio
    ):
        depth += 1
    return depth, leviathan_speedup(alpha, depth, cost_ratio)


def leviathan_operations(alpha: float, depth: int, operation_ratio: float) -> float:
    """Arithmetic per token over plain decoding's (arXiv 2211.17192, theorem 3.11).

    operation_ratio: operations of a draft step over those of a target step on one token.
    """
    _check_ratio(operation_ratio)
    return (depth * operation_ratio + depth + 1) / leviathan_tokens(alpha, depth)


@dataclass(frozen=True)
class RoundModel:
    """A round of a batch: its drafts, one target step over batch * (depth + 1) tokens, the rest.

    survival     S_1 .. S_max; never rising
    draft_ms     (batch, depth) -> ms to draft; depth 0 is not asked for
    step_ms      (batch, tokens of each request) -> ms of a target step, as StepProfile.step_ms
    overhead_ms  what a round adds that a plain step does not: acceptance, rollback, bookkeeping

    Depth 0 is plain decoding and costs step_ms(batch, 1).
    """

    survival: Sequence[float]
    draft_ms: Callable[[int, int], float]
    step_ms: Callable[[int, int], float]
    overhead_ms: float = 0.0

    def __post_init__(self) -> None:
        for before, now in zip((SURE, *self.survival), self.survival, strict=False):
            _check_share("survival", now)
            if now > before:
                raise InputError(f"survival rises from {before} to {now}; give S_k, not alpha_k")

    @property
    def max_depth(self) -> int:
        """The deepest position whose survival is known."""
        return len(self.survival)

    def tokens(self, depth: int) -> float:
        """Tokens of one request per round."""
        self._check(depth)
        return 1.0 + math.fsum(self.survival[:depth])

    def round_ms(self, batch: int, depth: int) -> float:
        """T_draft(B, depth) + t_{depth + 1}(B) + overhead."""
        self._check(depth)
        if depth == 0:
            return self.step_ms(batch, 1)
        return self.draft_ms(batch, depth) + self.step_ms(batch, depth + 1) + self.overhead_ms

    def speedup(self, batch: int, depth: int) -> float:
        """Against plain decoding at the same batch; 1.0 at depth 0."""
        return self.tokens(depth) * self.step_ms(batch, 1) / self.round_ms(batch, depth)

    def goodput(self, batch: int, depth: int) -> float:
        """Tokens the batch keeps per second: the goodput of arXiv 2406.14066.

        Not SLO goodput, which counts requests per second (latency.py).
        """
        return 1000 * batch * self.tokens(depth) / self.round_ms(batch, depth)

    def best_depth(self, batch: int) -> int:
        """The depth of the highest goodput at this batch, shallowest on a tie; 0 is allowed.

        It looks at every depth, since a staircase of step times has several local peaks.
        """
        return max(range(self.max_depth + 1), key=lambda depth: self.goodput(batch, depth))

    def marginal_depth(self, batch: int) -> int:
        """Deepen while S_{depth + 1} > added ms / (round ms / tokens); the first refusal ends it.

        The rule compares marginal tokens per marginal ms with the current average. From depth 0 the
        first draft must also pay for the overhead. Equal to best_depth where added ms never fall
        with depth; on a staircase it stops at the first riser, so best_depth may go further.
        """
        depth = 0
        while depth < self.max_depth:
            now = self.round_ms(batch, depth)
            added = self.round_ms(batch, depth + 1) - now
            if self.survival[depth] <= added * self.tokens(depth) / now:
                break
            depth += 1
        return depth

    def depth_schedule(self, batches: Sequence[int]) -> dict[int, int]:
        """The best depth of each batch: what a server switches by as its load changes."""
        return {batch: self.best_depth(batch) for batch in batches}

    def _check(self, depth: int) -> None:
        _check_depth(depth)
        if depth > self.max_depth:
            raise InputError(f"depth {depth}: survival is known up to {self.max_depth} only")


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{name} must be between 0 and 1, got {value}")


def _check_depth(depth: int) -> None:
    if depth < 0:
        raise InputError(f"depth must be 0 or more, got {depth}")


def _check_ratio(ratio: float) -> None:
    if not (ratio >= 0 and math.isfinite(ratio)):
        raise InputError(f"cost ratio must be 0 or more, got {ratio}")
