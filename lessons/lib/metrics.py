"""What happened, from the round records alone: acceptance by position, lengths, times.

One invariant carries the cost model: a round emits its accepted drafts and one token more.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import torch

from kernels.graphs import GraphKey
from kernels.runtime import synchronize

PHASES = ("draft", "verify", "overhead")
STEP_PHASES = ("draft", "verify", "accept", "commit", "rest")


@dataclass(frozen=True)
class RoundRecord:
    """One round of one request: propose, verify, accept, commit; times in milliseconds.

    `proposed` counts drafts, `tree_depth` those on a tree's longest path (None for a chain, where
    they are the same). `accepted` counts drafts that replaced a step of the target: emitted =
    accepted + 1 always. When a stop ends the request inside an accepted block, the token that
    stopped it is the extra one and accepted drafts behind it do not count.
    Times are those of the whole step: in a batch a round lasts as long as its neighbours' do.
    """

    proposed: int
    accepted: int
    emitted: int
    draft_ms: float
    verify_ms: float
    overhead_ms: float
    tree_depth: int | None = None

    def __post_init__(self) -> None:
        assert 0 <= self.accepted <= self.depth <= self.proposed, self
        assert self.emitted == self.accepted + 1, self

    @property
    def depth(self) -> int:
        """Drafts on the longest path of the proposal."""
        return self.proposed if self.tree_depth is None else self.tree_depth

    @property
    def total_ms(self) -> float:
        """Length of the round."""
        return self.draft_ms + self.verify_ms + self.overhead_ms


class StepClock:
    """Splits a step into its phases. On a card every lap waits for the work queued so far."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.ms = dict.fromkeys(STEP_PHASES, 0.0)
        self.started = self.last = self._now()

    def lap(self, phase: str) -> None:
        """Book the time since the last lap; a phase may come more than once."""
        now = self._now()
        self.ms[phase] += (now - self.last) * 1e3
        self.last = now

    def _now(self) -> float:
        synchronize(self._device)
        return perf_counter()


@dataclass(frozen=True)
class StepRecord:
    """One step of the engine: one forward over all requests that had a turn; times in milliseconds.

    rounds      by request id, those that decoded
    prefilled   by request id, prompt tokens computed; after a preemption also output computed again
    finished, preempted   request ids
    phase_ms    by STEP_PHASES: draft, verify (the forward), accept (logits to paths), commit
                (rollback, publishing, stops, observing), rest (scheduling, building the batch)
    num_rows    of the forward; max_query_len the most of one request
    bucket      the graph that served the step, None where it ran eagerly
    num_pages   in use at the widest point, while all trees were reserved; kv_bytes what they hold
    """

    rounds: dict[str, RoundRecord]
    prefilled: dict[str, int]
    finished: tuple[str, ...]
    preempted: tuple[str, ...]
    phase_ms: dict[str, float]
    num_requests: int
    num_rows: int
    max_query_len: int
    num_pages: int
    kv_bytes: int
    bucket: GraphKey | None = None

    @property
    def total_ms(self) -> float:
        """Length of the step."""
        return sum(self.phase_ms.values())


@dataclass(frozen=True)
class Acceptance:
    """By draft position, first position first.

    survival[k]: share of ALL rounds in which drafts up to this position were accepted.
    conditional[k]: survival[k] / survival[k - 1] (the first over all rounds), None where no round
    survived so far, because nothing was observed there.
    proposed[k]: share of all rounds that proposed a token at this position at all.
    A position of a tree is a depth: what counts is whether any path survives so far.

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
    positions = range(1, max((r.depth for r in rounds), default=0) + 1)
    survivors = [sum(r.accepted >= k for r in rounds) for k in positions]
    conditional = [
        now / before if before else None
        for now, before in zip(survivors, [total, *survivors], strict=False)
    ]
    return Acceptance(
        survival=[count / total for count in survivors],
        conditional=conditional,
        proposed=[sum(r.depth >= k for r in rounds) / total for k in positions],
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


def verify_efficiency(rounds: Sequence[RoundRecord]) -> float | None:
    """Tokens emitted for each row verified (drafts and roots); 1 is target-only and perfection."""
    rows = sum(r.proposed + 1 for r in rounds)
    return sum(r.emitted for r in rounds) / rows if rows else None


def phase_shares(steps: Sequence[StepRecord]) -> dict[str, float]:
    """Share of each phase of STEP_PHASES in the time of all steps; they sum to one."""
    total = sum(step.total_ms for step in steps)
    return {
        phase: sum(step.phase_ms[phase] for step in steps) / total if total else 0.0
        for phase in STEP_PHASES
    }


def batch_tokens_per_s(steps: Sequence[StepRecord]) -> float | None:
    """Tokens that rounds of all requests emitted, over the time of all steps, prefill included."""
    total_ms = sum(step.total_ms for step in steps)
    emitted = sum(r.emitted for step in steps for r in step.rounds.values())
    return 1000 * emitted / total_ms if total_ms else None


def peak_pages(steps: Sequence[StepRecord]) -> tuple[int, int]:
    """Most KV pages in use at a time, and their bytes."""
    peak = max(steps, key=lambda step: step.num_pages, default=None)
    return (peak.num_pages, peak.kv_bytes) if peak else (0, 0)
