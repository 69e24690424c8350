"""The network of DSpark: DFlash's backbone, a head that makes the block coherent, one that doubts.

The Markov head adds to each row's logits a low-rank function of the token drawn before it, so row k
gives the law of draft k given draft k - 1, an exact softmax. The confidence head says how likely
the target is to accept draft k if it accepts those before; it sees the same row and the same token.
Architecture: arXiv 2607.05147; names of weights as in the authors' checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from kernels.runtime import InputError
from lessons.lib.draft.dflash_net import DFlashConfig, DFlashNet


@dataclass(frozen=True)
class DSparkConfig(DFlashConfig):
    """block_size is the number of drafts here: the anchor's row predicts the first of them.

    temperatures: one a draft, by which confidence logits are divided; none before calibration.
    """

    markov_rank: int = 256
    temperatures: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.markov_rank < 1:
            raise InputError(f"markov_rank must be 1 or more, got {self.markov_rank}")
        if len(self.temperatures) not in (0, self.block_size):
            raise InputError(
                f"{len(self.temperatures)} temperatures for {self.block_size} drafts; give one for "
                "each or none"
            )
        if any(not temperature > 0 for temperature in self.temperatures):
            raise InputError(f"temperatures must be above 0, got {list(self.temperatures)}")


class _MarkovHead(nn.Module):
    def __init__(self, vocab_size: int, rank: int) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(vocab_size, rank)
        self.markov_w2 = nn.Linear(rank, vocab_size, bias=False)


class _ConfidenceHead(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 1)


class DSparkNet(DFlashNet):
    """DFlash's weights and those of the two heads."""

    config: DSparkConfig

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__(config)
        body, rank = config.body, config.markov_rank
        self.markov_head = _MarkovHead(body.vocab_size, rank)
        self.confidence_head = _ConfidenceHead(body.hidden_size + rank)

    def follow(
        self, hidden: torch.Tensor, previous_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What the heads make of rows and the tokens before them.

        hidden [..., hidden] from `forward`, previous_ids [...] -> what to add to the rows' logits
        [..., vocab], and confidence logits [...].
        """
        before = self.markov_head.markov_w1(previous_ids)
        confidence = self.confidence_head.proj(torch.cat((hidden, before), -1)).squeeze(-1)
        return self.markov_head.markov_w2(before), confidence
