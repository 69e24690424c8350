"""How much of a held-out text a drafter would have had accepted, position by position.

The text is what the target wrote, so a draft is accepted where it is the text's token. Starts in
the middle of the text stand for the rounds of an engine; `evaluate` measures with the real one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lessons.lib.train.target_pass import TargetBatch


@dataclass
class HeldOut:
    """By position: drafts that had a chance, all before them accepted, and accepted ones."""

    tried: torch.Tensor  # [steps] int64
    accepted: torch.Tensor  # [steps] int64

    @classmethod
    def empty(cls, num_steps: int) -> HeldOut:
        """Nothing counted yet."""
        return cls(*(torch.zeros(num_steps, dtype=torch.int64) for _ in range(2)))

    @classmethod
    def of(cls, hits: Sequence[torch.Tensor], known: Sequence[torch.Tensor]) -> HeldOut:
        """hits, known: of each step, bool of one shape: the draft is the text's token; there is
        one."""
        found, alive = cls.empty(len(hits)), torch.ones_like(hits[0])
        for step, (hit, is_known) in enumerate(zip(hits, known, strict=True)):
            alive = alive & is_known
            found.tried[step] = int(alive.sum())
            alive = alive & hit
            found.accepted[step] = int(alive.sum())
        return found

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


def measure_bigram(table: torch.Tensor, batches: Iterable[TargetBatch], num_steps: int) -> HeldOut:
    """The drafter that knows only the last token, from every position. table [vocab] int64."""
    total = HeldOut.empty(num_steps)
    for batch in batches:
        last = torch.arange(batch.token_ids.shape[1], device=batch.token_ids.device)
        hits, known = [], []
        # The drafters' own unrolling: from a start s the first draft is token s + 2.
        for places in (last + 2 + step for step in range(num_steps)):
            known.append(is_response(batch, places) & has_token(batch, places))
            hits.append(table[following(batch, places - 1)] == following(batch, places))
        total += HeldOut.of(hits, known)
    return total


def following(batch: TargetBatch, places: torch.Tensor) -> torch.Tensor:
    """Tokens [b, m] of the texts at places [m] or [b, m]; behind the end any."""
    places = places.expand(len(batch.token_ids), -1)
    return batch.token_ids.gather(1, places.clamp(max=batch.token_ids.shape[1] - 1))


def has_token(batch: TargetBatch, places: torch.Tensor) -> torch.Tensor:
    """[b, m] bool: whether the text reaches to places [m] or [b, m]."""
    return places < batch.lengths[:, None]


def is_response(batch: TargetBatch, places: torch.Tensor) -> torch.Tensor:
    """[b, m] bool: whether a token there is, or would be, the target's."""
    return places >= batch.prompt_lens[:, None]
