"""Lab 8G: the DSpark scheduler of the engine asks a student's function for its verify lengths.

Drafts come from a stand-in whose confidences are right by construction, because what is under test
is how they are spent, not how they are made. It knows the text that the target will write.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.runtime import InputError
from lessons.lib.cost import survival_curve
from lessons.lib.draft.dspark_budget import Confidences
from lessons.lib.draft.dspark_planner import VerifyPlanner
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.engine import Engine
from lessons.lib.metrics import StepRecord
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.tokenizer import Tokenizer
from lessons.lib.pacing import Pacing
from lessons.lib.plugs.together import run_together

Choose = Callable[[list[list[float]], list[list[float]], list[float]], Any]
NEVER_SURE = 0.98  # the stand-in's largest confidence: exactly 1 marks what the ring did not know


@dataclass(frozen=True)
class PlannedStep:
    """What a step was asked for and how it was answered."""

    old: list[list[float]]
    now: list[list[float]]
    lengths: list[int]

    @property
    def is_warm(self) -> bool:
        """Whether all old confidences are a drafter's; a new request is given ones."""
        return all(c < 1 for block in self.old for c in block)

    @property
    def rows(self) -> int:
        """Of the step: one of each request, and the drafts."""
        return len(self.now) + sum(self.lengths)

    def tokens(self, lengths: Sequence[int]) -> float:
        """Expected ones at these lengths, by the current confidences."""
        curves = [survival_curve(block) for block in self.now]
        pairs = zip(curves, lengths, strict=True)
        return len(curves) + sum(sum(curve[:n]) for curve, n in pairs)

    def ms_per_token(self, lengths: Sequence[int], cost_ms: Sequence[float]) -> float:
        """By the cost table."""
        return cost_ms[len(self.now) + sum(lengths)] / self.tokens(lengths)


class AskedRule:
    """The planner's length rule as a function over plain data; keeps every question and answer."""

    def __init__(self, choose: Choose, cost_ms: Sequence[float]) -> None:
        """cost_ms[b]: ms of a step with b rows; must reach the most rows of a step."""
        self._choose, self._cost_ms = choose, list(cost_ms)
        self.steps: list[PlannedStep] = []

    def lengths(self, old: Sequence[Confidences], now: Sequence[Confidences]) -> list[int]:
        """As `LengthRule`. InputError where the answer is not a length for each request."""
        before, blocks = [list(block) for block in old], [list(block) for block in now]
        answer = self._choose([list(b) for b in before], [list(b) for b in blocks], self._cost_ms)
        lengths = list(answer) if isinstance(answer, list | tuple) else []
        is_plain = all(isinstance(n, int) and not isinstance(n, bool) for n in lengths)
        if len(lengths) != len(blocks) or not is_plain:
            raise InputError(f"verify lengths: a list of {len(blocks)} whole numbers is needed")
        if any(not 0 <= n <= len(b) for n, b in zip(lengths, blocks, strict=True)):
            raise InputError("verify lengths: each must be from 0 to its request's drafts")
        self.steps.append(PlannedStep(before, blocks, lengths))
        return lengths


class CalibratedDrafter:
    """Says what the target will say at place j with chance c_j, else something wrong.

    So the confidences c_j are calibrated exactly. They are settled before the drafts are drawn and
    wander a little from block to block.
    """

    memory_bytes = 0

    def __init__(self, text_ids: Sequence[int], profile: Confidences, seed: int, vocab: int):
        """text_ids: prompt and continuation. profile: c_1, c_2, ... around which it wanders."""
        self._text, self._profile, self._vocab = list(text_ids), list(profile), vocab
        self._random = random.Random(seed)

    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """Of what follows, as far as the text and the profile reach."""
        truth = self._text[len(context_ids) :][: min(num_draft_tokens, len(self._profile))]
        wander = self._random.uniform
        confidences = [min(c * wander(0.98, 1.02), NEVER_SURE) for c in self._profile[: len(truth)]]
        drafts = [
            token if self._random.random() < c else (token + 1) % self._vocab
            for token, c in zip(truth, confidences, strict=True)
        ]
        return DraftProposal(drafts, confidences=confidences)

    def observe(self, token_ids: Sequence[int]) -> None:
        """Nothing to do: the next context contains the tokens."""

    def forget(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True)
class PacedRun:
    """planned: of each step that decoded. records: the engine's own of the same steps.
    texts: new tokens of each request; expected: the same, target only."""

    planned: list[PlannedStep]
    records: list[StepRecord]
    texts: list[list[int]]
    expected: list[list[int]]

    @property
    def rows_agree(self) -> bool:
        """The engine computed what was planned, and no row more."""
        drafts = [sum(r.proposed for r in record.rounds.values()) for record in self.records]
        return drafts == [sum(step.lengths) for step in self.planned]

    def gain_over(self, depth: int, cost_ms: Sequence[float]) -> float:
        """Predicted ms of the run's tokens at a fixed depth, over those of the plan; depth 0 is
        off. Steps with a request that is too new for confidences do not count."""
        paid = fixed = 0.0
        for step in self.planned:
            if step.is_warm:
                lengths = [min(depth, len(block)) for block in step.now]
                paid += cost_ms[step.rows]
                fixed += step.tokens(step.lengths) * step.ms_per_token(lengths, cost_ms)
        if not paid:
            raise InputError("the run is too short: no step had confidences of two steps ago")
        return fixed / paid


def paced_run(
    model: LlamaModel,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    profiles: Sequence[Confidences],
    num_new_tokens: int,
    rule: AskedRule,
    seed: int = 0,
) -> PacedRun:
    """All prompts at once, each with its stand-in drafter, paced by `rule`; greedy."""
    size = num_new_tokens
    plain, _ = run_together(Engine(model, tokenizer), prompts, [None] * len(prompts), 0, size)
    expected = [result.token_ids for result in plain]
    drafters = [
        CalibratedDrafter([*prompt, *text], profile, seed + number, model.config.vocab_size)
        for number, (prompt, text, profile) in enumerate(
            zip(prompts, expected, profiles, strict=True)
        )
    ]
    engine = Engine(model, tokenizer, pacing=Pacing(verify_planner=VerifyPlanner(rule)))
    paced, records = run_together(engine, prompts, drafters, max(map(len, profiles)), size)
    return PacedRun(rule.steps, records, [result.token_ids for result in paced], expected)
