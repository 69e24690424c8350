"""Texts decoded side by side, and what their rounds took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lessons.lib.config import SamplingParams
from lessons.lib.draft.proposer import Proposer
from lessons.lib.engine import Engine
from lessons.lib.metrics import RoundRecord, StepRecord


@dataclass(frozen=True)
class Decoded:
    """What came of a group of requests; times in milliseconds.

    rounds              of all requests, but for steps that computed a prompt as well. A step's time
                        is shared out evenly among its rounds, so that they add up to the steps
    prefill_ms          of the steps that computed a prompt
    extra_memory_bytes  as in GenerationResult, over all requests, the drafter's weights once
    num_passes          runs of the draft network, for all requests; a lookup has none
    num_drafted         rounds, of any step, that proposed something; num_drafts what they proposed
    """

    rounds: list[RoundRecord]
    prefill_ms: float
    extra_memory_bytes: int
    num_passes: int
    num_drafted: int
    num_drafts: int


def decode(
    engine: Engine,
    texts: Sequence[Sequence[int]],
    proposers: Sequence[Proposer | None],
    depth: int,
    max_new_tokens: int,
    sampling: SamplingParams | None,
) -> Decoded:
    """Decode all texts (token ids) at once, each with its own proposer, until the last one ends."""
    drafters = [proposer for proposer in proposers if proposer is not None]
    shared = drafters[0].memory_bytes if drafters else 0  # a fresh one holds its weights alone
    names: list[str] = []
    steps: list[StepRecord] = []
    try:
        for text, proposer in zip(texts, proposers, strict=True):
            names.append(engine.add_request(text, max_new_tokens, sampling, proposer, depth))
        while any(engine.find(name).finish_reason is None for name in names):
            steps.append(engine.step())
    except BaseException:
        for name in names:
            engine.abort(name)
        raise
    extra = [engine.take_result(name).extra_memory_bytes for name in names]
    records = [record for step in steps for record in step.rounds.values()]
    return Decoded(
        rounds=[record for step in steps if not step.prefilled for record in _shares(step)],
        prefill_ms=sum(step.total_ms for step in steps if step.prefilled),
        extra_memory_bytes=shared + sum(max(held - shared, 0) for held in extra),
        num_passes=sum(getattr(drafter, "num_passes", 0) for drafter in drafters),
        num_drafted=sum(record.proposed > 0 for record in records),
        num_drafts=sum(record.proposed for record in records),
    )


def _shares(step: StepRecord) -> list[RoundRecord]:
    count = len(step.rounds)
    return [
        replace(
            record,
            draft_ms=record.draft_ms / count,
            verify_ms=record.verify_ms / count,
            overhead_ms=record.overhead_ms / count,
        )
        for record in step.rounds.values()
    ]
