"""How much of a held-out text a drafter would have had accepted, position by position.

The text is what the target wrote, so a draft is accepted where it is the text's token. Starts in
the middle of the text stand for the rounds of an engine; `evaluate` measures with the real one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lessons.lib.draft.eagle3_net import Eagle3Net
from lessons.lib.train.target_pass import TargetBatch
from lessons.lib.train.unroll import learnt_rows, unroll


@dataclass
class HeldOut:
    """By position: drafts that had a chance, all before them accepted, and accepted ones."""

    tried: torch.Tensor  # [steps] int64
    accepted: torch.Tensor  # [steps] int64

    @classmethod
    def empty(cls, num_steps: int) -> HeldOut:
        """Nothing counted yet."""
        return cls(*(torch.zeros(num_steps, dtype=torch.int64) for _ in range(2)))

    def add(self, hits: Sequence[torch.Tensor], known: Sequence[torch.Tensor]) -> None:
        """hits, known: of each step, [b, t] bool: the draft is the text's token; there is one."""
        alive = torch.ones_like(hits[0])
        for step, (hit, is_known) in enumerate(zip(hits, known, strict=True)):
            alive = alive & is_known
            self.tried[step] += int(alive.sum())
            alive = alive & hit
            self.accepted[step] += int(alive.sum())

    def __add__(self, other: HeldOut) -> HeldOut:
        return HeldOut(self.tried + other.tried, self.accepted + other.accepted)

    @property
    def conditional(self) -> list[float]:
        """Acceptance of each position given all before it; 0 where none was tried."""
        return (self.accepted / self.tried.clamp(min=1)).tolist()

    @property
    def tokens_per_round(self) -> float:
        """With drafts of all positions and the bonus token counted."""
        return 1 + float(np.cumprod(self.conditional).sum())


@torch.no_grad()
def measure_net(
    net: Eagle3Net, embedding: torch.Tensor, batches: Iterable[TargetBatch], num_steps: int
) -> HeldOut:
    """Greedy drafts of the network from every position of the responses."""
    total, target_ids = HeldOut.empty(num_steps), net.target_ids
    for batch in batches:
        hits, known = [], []
        for step, (starts, hidden) in enumerate(unroll(net, embedding, batch, num_steps)):
            # The row behind the last one known has no token to meet.
            is_known = learnt_rows(batch, starts, step) & _has_token(batch, starts, step)
            guesses = torch.zeros_like(batch.token_ids)
            guesses[is_known] = target_ids[net.logits(hidden[is_known]).argmax(-1)]
            hits.append(guesses == _following(batch.token_ids, starts, step))
            known.append(is_known)
        total.add(hits, known)
    return total


def measure_bigram(table: torch.Tensor, batches: Iterable[TargetBatch], num_steps: int) -> HeldOut:
    """The same for the drafter that knows only the last token. table [vocab] int64."""
    total = HeldOut.empty(num_steps)
    for batch in batches:
        starts = torch.arange(batch.token_ids.shape[1], device=batch.token_ids.device)
        known = [
            learnt_rows(batch, starts, step) & _has_token(batch, starts, step)
            for step in range(num_steps)
        ]
        hits = [
            table[_following(batch.token_ids, starts, step - 1)]
            == _following(batch.token_ids, starts, step)
            for step in range(num_steps)
        ]
        total.add(hits, known)
    return total


def _following(token_ids: torch.Tensor, starts: torch.Tensor, step: int) -> torch.Tensor:
    """Token s + 2 + step of every start; of the last ones any."""
    return token_ids[:, (starts + 2 + step).clamp(max=token_ids.shape[1] - 1)]


def _has_token(batch: TargetBatch, starts: torch.Tensor, step: int) -> torch.Tensor:
    return starts + 2 + step < batch.lengths[:, None]
