"""What happened, from the round records alone: acceptance by position, lengths, times.

One invariant carries the cost model: a round emits its accepted drafts and one token more.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

PHASES = ("draft", "verify", "overhead")


@dataclass(frozen=True)
class RoundRecord:
    """One round of propose, verify, accept, commit; times in milliseconds.

    `accepted` counts drafts that replaced a step of the target: emitted = accepted + 1 always. When
    a stop token ends the request inside an accepted block, that stop token is the extra one and
    accepted drafts behind it do not count.
    """

    proposed: int
    accepted: int
    emitted: int
    draft_ms: float
    verify_ms: float
    overhead_ms: float

    def __post_init__(self) -> None:
        assert 0 <= self.accepted <= self.proposed and self.emitted == self.accepted + 1, self

    @property
    def total_ms(self) -> float:
        """Length of the round."""
        return self.draft_ms + self.verify_ms + self.overhead_ms


@dataclass(frozen=True)
class Acceptance:
    """By draft position, first position first.

    survival[k]: share of ALL rounds in which drafts up to this position were accepted.
    conditional[k]: survival[k] / survival[k - 1] (the first over all rounds), None where no round
    survived so far, because nothing was observed there.
    proposed[k]: share of all rounds that proposed a token at this position at all.

    A round that proposes nothing here counts as a rejection here. That is what makes
    1 + sum(survival) the measured tokens per round; survival / proposed tells how good the
    proposals were where there were any.
    """

    survival: list[float]
    conditional: list[float | None]
    proposed: list[float]


def acceptance(rounds: Sequence[RoundRecord]) -> Acceptance:
    """Acceptance by position, for as many positions as the longest proposal had."""
    total = len(rounds)
    positions = range(1, max((r.proposed for r in rounds), default=0) + 1)
    survivors = [sum(r.accepted >= k for r in rounds) for k in positions]
    conditional = [
        now / before if before else None
        for now, before in zip(survivors, [total, *survivors], strict=False)
    ]
    return Acceptance(
        survival=[count / total for count in survivors],
        conditional=conditional,
        proposed=[sum(r.proposed >= k for r in rounds) / total for k in positions],
    )


def acceptance_length(rounds: Sequence[RoundRecord]) -> float | None:
    """Mean tokens per round, the bonus or recovered token counted; None without rounds."""
    return statistics.fmean(r.emitted for r in rounds) if rounds else None


def phase_ms(rounds: Sequence[RoundRecord]) -> dict[str, dict[str, float | None]]:
    """{"draft" | "verify" | "overhead" | "total": {"median", "total"}} in milliseconds."""
    times = {phase: [getattr(r, f"{phase}_ms") for r in rounds] for phase in (*PHASES, "total")}
    return {
        phase: {"median": statistics.median(ms) if ms else None, "total": sum(ms)}
        for phase, ms in times.items()
    }


def tokens_per_s(rounds: Sequence[RoundRecord]) -> float | None:
    """Decoded tokens over the time of their rounds; prefill and its first token left out."""
    total_ms = sum(r.total_ms for r in rounds)
    return 1000 * sum(r.emitted for r in rounds) / total_ms if total_ms else None
