"""Several requests at once through an engine, each with a proposer of its own."""

from __future__ import annotations

from collections.abc import Sequence

from lessons.lib.draft.proposer import Proposer
from lessons.lib.engine import Engine
from lessons.lib.metrics import StepRecord
from lessons.lib.sequence import GenerationResult


def run_together(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    proposers: Sequence[Proposer | None],
    depth: int,
    num_new_tokens: int,
) -> tuple[list[GenerationResult], list[StepRecord]]:
    """Greedy, every request to its last token: the results in order, and the steps in which any
    decoded."""
    names = [
        engine.add_request(prompt, num_new_tokens, None, proposer, depth, ignore_eos=True)
        for prompt, proposer in zip(prompts, proposers, strict=True)
    ]
    records = []
    while engine.has_work:
        records.append(engine.step())
    results = [engine.take_result(name) for name in names]
    return results, [record for record in records if record.rounds]
