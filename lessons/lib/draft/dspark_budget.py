"""How many drafts of a batch are worth verifying: DSpark's budget over measured step times.

A step that verifies k drafts of R requests computes R + k rows and yields R tokens for certain and
one more for each draft that survives. The budget is the k with the most tokens per millisecond.
Drafting is never shortened, only verification. Algorithm 1 of arXiv 2607.05147.

What a decision may look at: whether a draft is verified must be settled by what was known before
the draft was drawn, or the law of the output changes (appendix A there). `best_budget` compares
whole budgets, so it may see old survivals only; `early_stop_budget` and `allocate` go through the
drafts in an order in which each is judged before those behind it, so they may see current ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from kernels.runtime import InputError
from lessons.lib.cost import survival_curve

Survivals = Sequence[Sequence[float]]  # of each request S_1, S_2, ...: `cost.survival_curve`
Confidences = Sequence[float]  # c_1, c_2, ... of one block: chance of each, given those before


def _free(_batch: int) -> float:
    return 0.0


@dataclass(frozen=True)
class BudgetRule:
    """Tokens per millisecond as a function of the budget.

    step_ms   (requests, rows of all of them) -> ms of the target step, as StepProfile.rows_ms
    draft_ms  (requests) -> ms that the step costs beside, whatever is verified
    """

    step_ms: Callable[[int, int], float]
    draft_ms: Callable[[int], float] = _free

    def throughput(self, survivals: Survivals) -> list[float]:
        """Theta(k), tokens per ms when the k likeliest drafts are verified, for k = 0, 1, ..."""
        batch = len(survivals)
        surviving = [survival for survival, _, _ in _ranked(survivals)]
        tokens = accumulate(surviving, initial=float(batch))
        fixed = self.draft_ms(batch)
        return [n / (fixed + self.step_ms(batch, batch + k)) for k, n in enumerate(tokens)]

    def best_budget(self, survivals: Survivals) -> int:
        """The budget of the highest throughput, the smallest on a tie.

        It looks past every fall, because step times are a staircase: inside a step further rows are
        free. Must hold: the survivals do not depend on the drafts that the budget is for.
        """
        thetas = self.throughput(survivals)
        return max(range(len(thetas)), key=thetas.__getitem__)

    def early_stop_budget(self, survivals: Survivals) -> int:
        """Admit the next likeliest draft while that raises the throughput.

        Equal to `best_budget` where throughput has one peak; on a staircase it stops at the first
        riser. Of each draft it looks at nothing that comes after it.
        """
        thetas = self.throughput(survivals)
        rises = (later > now for now, later in zip(thetas, thetas[1:], strict=False))
        return next((k for k, is_rise in enumerate(rises) if not is_rise), len(thetas) - 1)

    def lengths(self, old: Sequence[Confidences], now: Sequence[Confidences]) -> list[int]:
        """Drafts of each request to verify: how many in all by old confidences, whose by current
        ones. Both hold as many for each request."""
        budget = self.best_budget([survival_curve(block) for block in old])
        return allocate([survival_curve(block) for block in now], budget)


def allocate(survivals: Survivals, budget: int) -> list[int]:
    """Drafts of each request to verify, `budget` of all or all there are: the likeliest first.

    Equal survivals go by position, then by request: never by a confidence of a later draft. Since
    survivals fall along a block, what is taken of each block is a beginning of it.
    """
    if budget < 0:
        raise InputError(f"verify budget must be 0 or more, got {budget}")
    lengths = [0] * len(survivals)
    for _, _, request in _ranked(survivals)[:budget]:
        lengths[request] += 1
    return lengths


def _ranked(survivals: Survivals) -> list[tuple[float, int, int]]:
    """(survival, position, request) of every draft, the likeliest first."""
    for request, curve in enumerate(survivals):
        for before, now in zip((1.0, *curve), curve, strict=False):
            if not 0 <= now <= before:
                raise InputError(
                    f"request {request}: survival goes from {before} to {now}; it must fall along "
                    "the block, from 1 at most to 0 at least (give products, not confidences)"
                )
    drafts = [
        (survival, position, request)
        for request, curve in enumerate(survivals)
        for position, survival in enumerate(curve)
    ]
    return sorted(drafts, key=lambda draft: (-draft[0], *draft[1:]))
