"""Lab 8F: DFlash drafts for all running requests in one pass, laid out by a student's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernels.runtime import InputError
from lessons.lib import metrics
from lessons.lib.draft.decoder import KeyValue
from lessons.lib.draft.dflash import DFlashProposer, load_dflash
from lessons.lib.draft.dflash_net import DFlashNet
from lessons.lib.draft.lockstep import Steps, in_lockstep
from lessons.lib.draft.proposer import DraftProposal, Proposer
from lessons.lib.draft.registry import shipped
from lessons.lib.engine import Engine
from lessons.lib.metrics import Acceptance, RoundRecord
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.tokenizer import Tokenizer
from lessons.lib.plugs.together import run_together

Blocks = tuple[Sequence[int], Sequence[int], Sequence[Sequence[bool]]]
# (anchors, context_lens, num_slots, block_size, mask_token_id) -> (token_ids, positions, mask)
BlockInputs = Callable[[list[int], list[int], int, int, int], Blocks]
SLOTS_OF_A_PAGE = 16


class BlockPass:
    """Owns the draft pass of a step; the contexts are its members'.

    It runs when the first member of a step proposes, over every member that has an anchor; the
    others find their rows ready. What a member learns afterwards makes its own rows void.
    """

    def __init__(
        self, target: LlamaModel, inputs: BlockInputs, net: DFlashNet | None = None
    ) -> None:
        """net: a drafter for the target; the course's own by default."""
        self.net, self.target = net or load_dflash(shipped("dflash"), target), target
        self.num_passes = 0
        # Of any row, relative to the largest entry: against the member's own pass, alone.
        self.largest_error = 0.0
        self._inputs = inputs
        self._members: list[BlockMember] = []

    def member(self) -> BlockMember:
        """A proposer for one more request."""
        self._members.append(BlockMember(self))
        return self._members[-1]

    def run(self) -> None:
        """Draft for all that have an anchor. Raises InputError for inputs that are none."""
        self.num_passes += 1
        config = self.net.config
        members = [
            (member, anchor) for member in self._members if (anchor := member.anchor) is not None
        ]
        lens = [member.num_cached for member, _ in members]
        num_slots = -(-max(lens) // SLOTS_OF_A_PAGE) * SLOTS_OF_A_PAGE
        anchors, size = [anchor for _, anchor in members], config.block_size
        answer = self._inputs(anchors, lens, num_slots, size, config.mask_token_id)
        shape = len(members) * size, len(members) * (num_slots + size)
        limits = config.body.vocab_size, config.body.max_context + size
        token_ids, positions, mask = (
            torch.tensor(part, device=self.target.device) for part in checked(answer, shape, limits)
        )
        regions = [member.region(num_slots) for member, _ in members]
        context = [_joined(layer) for layer in zip(*regions, strict=True)]
        hidden = self.net(self.net.embed(token_ids, self.target), positions, context, mask)
        for (member, _), rows in zip(members, hidden.split(size), strict=True):
            member.rows = rows


class BlockMember(DFlashProposer):
    """A request's part in a `BlockPass`: its context, its anchor, its rows of the last pass."""

    def __init__(self, block_pass: BlockPass) -> None:
        """By `BlockPass.member`. Greedy."""
        self.anchor: int | None = None
        self.rows: torch.Tensor | None = None
        self._pass = block_pass
        super().__init__(block_pass.net, block_pass.target)

    def observe_features(
        self, start: int, features: torch.Tensor, next_token_ids: Sequence[int]
    ) -> None:
        """As DFlashProposer does; the last of the tokens is the next anchor."""
        super().observe_features(start, features, next_token_ids)
        self.anchor, self.rows = next_token_ids[-1], None

    def forget(self) -> None:
        """The request is over: the next pass leaves it out."""
        super().forget()
        self.anchor = self.rows = None

    def region(self, num_slots: int) -> list[KeyValue]:
        """Its context, a pair a layer [num_slots, kv_heads, head_dim]. What lies behind it is
        noise, as memory is that somebody else has used."""
        noise = torch.Generator().manual_seed(self.num_cached)
        in_lockstep([self._learn()])
        return [
            (_filled(key, num_slots, noise), _filled(value, num_slots, noise))
            for key, value in (kv.rows for kv in self._context)
        ]

    def _draft_rows(self, context_ids: Sequence[int], count: int) -> Steps[torch.Tensor]:
        """Of the shared pass, compared with those of a pass of its own, which also checks that the
        context is complete."""
        alone = yield from super()._draft_rows(context_ids, count)
        if self.rows is None:
            self._pass.run()
        assert self.rows is not None
        first = int(not self._net.config.anchor_predicts)
        rows = self.rows[first : first + count]
        error = float((rows - alone).abs().max() / alone.abs().max())
        self._pass.largest_error = max(self._pass.largest_error, error)
        return rows


def _filled(rows: torch.Tensor, num_slots: int, noise: torch.Generator) -> torch.Tensor:
    shape = num_slots - len(rows), *rows.shape[1:]
    return torch.cat([rows, torch.randn(shape, generator=noise).to(rows)])


def _joined(pairs: Sequence[KeyValue]) -> KeyValue:
    keys, values = zip(*pairs, strict=True)
    return torch.cat(keys), torch.cat(values)


def checked(
    answer: Any, shape: tuple[int, int], limits: tuple[int, int]
) -> tuple[list[int], list[int], list[list[bool]]]:
    """(token_ids, positions, mask) as the contract has it, of `shape` (rows, columns); tokens and
    positions below `limits`. Raises InputError, saying what is not: also for a row that sees
    nothing, whose attention would be no number."""
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise InputError("block_inputs must return a triple (token_ids, positions, mask)")
    token_ids, positions = ([int(value) for value in part] for part in answer[:2])
    mask = [[bool(seen) for seen in row] for row in answer[2]]
    sizes = [len(token_ids), len(positions), len(mask)]
    if sizes != [shape[0]] * 3:
        raise InputError(f"token_ids, positions, mask need {shape[0]} rows each, got {sizes}")
    if any(len(row) != shape[1] for row in mask):
        raise InputError(f"each row of mask needs {shape[1]} entries")
    for name, values, limit in zip(
        ("token_ids", "positions"), (token_ids, positions), limits, strict=True
    ):
        if not all(0 <= value < limit for value in values):
            raise InputError(f"{name} must be from 0 to {limit - 1}")
    if not all(map(any, mask)):
        raise InputError("a row of mask sees nothing at all")
    return token_ids, positions, mask


@dataclass(frozen=True)
class DraftedRun:
    """texts: new tokens of each request. rounds: those of all requests that drafted.
    num_steps: engine steps in which any of them did."""

    texts: list[list[int]]
    rounds: list[RoundRecord]
    num_steps: int

    @property
    def num_accepted(self) -> int:
        """Drafts, in all rounds."""
        return sum(record.accepted for record in self.rounds)

    @property
    def tokens_a_round(self) -> float:
        """The bonus or corrected token counted."""
        return metrics.acceptance_length(self.rounds) or 1.0

    @property
    def acceptance(self) -> Acceptance:
        """By draft position."""
        return metrics.acceptance(self.rounds)


def drafted_run(
    model: LlamaModel,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    make: Callable[[], Proposer | None],
    depth: int,
    num_new_tokens: int,
) -> DraftedRun:
    """All prompts at once, greedy; `make` gives each request its proposer, None is target-only."""
    proposers = [make() for _ in prompts]
    engine = Engine(model, tokenizer)
    results, records = run_together(engine, prompts, proposers, depth, num_new_tokens)
    drafting = [
        [r for r in record.rounds.values() if r.proposed]
        for record in records
        if any(r.proposed for r in record.rounds.values())
    ]
    rounds = [r for step in drafting for r in step]
    return DraftedRun([result.token_ids for result in results], rounds, len(drafting))


def overheard(proposer: Proposer) -> dict[int, list[int]]:
    """What it proposes from now on, by the length of the context: grows as it is asked."""
    proposals: dict[int, list[int]] = {}
    propose = proposer.propose

    def heard(context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        made = propose(context_ids, num_draft_tokens)
        proposals[len(context_ids)] = made.token_ids
        return made

    proposer.propose = heard  # type: ignore[method-assign]
    return proposals
