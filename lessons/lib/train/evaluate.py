"""Acceptance of a drafter on the held-out prompts, by the real engine and its own rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tqdm import tqdm

from lessons.lib import metrics
from lessons.lib.bench.workload import Prompt
from lessons.lib.config import SamplingParams
from lessons.lib.draft.proposer import Proposer
from lessons.lib.engine import Engine


@dataclass(frozen=True)
class Row:
    """One drafter on one kind of prompt; `conditional` as in `metrics.acceptance`."""

    name: str
    kind: str
    num_rounds: int
    conditional: list[float | None]
    tokens_per_round: float

    def __str__(self) -> str:
        values = " ".join("  - " if value is None else f"{value:.2f}" for value in self.conditional)
        return (
            f"{self.name:<13} {self.kind:<6} {self.num_rounds:5} rounds  {values}  "
            f"{self.tokens_per_round:.2f} tokens a round"
        )


def evaluate(
    engine: Engine,
    prompts: Sequence[Prompt],
    drafters: Mapping[str, Callable[[SamplingParams], Proposer | None]],
    depth: int,
    max_new_tokens: int,
    sampling: SamplingParams,
    progress: bool = True,
) -> list[Row]:
    """Every prompt with every drafter; a row for each kind, and one for all of them first.

    drafters: by name, what makes a fresh proposer for a request with these sampling parameters.
    """
    rounds: dict[tuple[str, str], list[metrics.RoundRecord]] = {}
    turns = [(prompt, name) for prompt in prompts for name in drafters]
    for prompt, name in tqdm(turns, disable=not progress, desc="evaluating", unit="run"):
        proposer = drafters[name](sampling)
        ids = prompt.token_ids(engine.tokenizer)
        result = engine.generate(ids, max_new_tokens, sampling, proposer, depth)
        for kind in ("all", prompt.kind):
            rounds.setdefault((name, kind), []).extend(result.rounds)
    return [
        Row(name, kind, len(found), conditional(found), metrics.acceptance_length(found) or 1.0)
        for (name, kind), found in sorted(rounds.items(), key=lambda item: item[0])
    ]


def conditional(rounds: Sequence[metrics.RoundRecord]) -> list[float | None]:
    """Acceptance of each position given those before it."""
    return metrics.acceptance(rounds).conditional
