"""The network of DSpark: DFlash's backbone, a head that makes the block coherent, one that doubts.

The Markov head adds to each row's logits a low-rank function of the token drawn before it, so row k
gives the law of draft k given the drafts before, an exact softmax. The confidence head says how
likely the target is to accept draft k if it accepts those before; it sees the same row and the same
token. Architecture: arXiv 2607.05147; names of weights as in the authors' checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from kernels.runtime import InputError
from lessons.lib.draft.dflash_net import DFlashConfig, DFlashNet
from lessons.lib.draft.markov_head import (
    MARKOV_HEADS,
    MarkovState,
    VanillaMarkovHead,
    check_markov_head,
)


@dataclass(frozen=True)
class DSparkConfig(DFlashConfig):
    """As a rule the anchor's row predicts the first draft, so that block_size drafts come.

    temperatures: one a draft, by which confidence logits are divided; none before calibration.
    The confidence head sees the row, and the token before if confidence_head_with_markov.
    """

    anchor_predicts: bool = True
    markov_rank: int = 256
    temperatures: tuple[float, ...] = ()
    markov_head_type: str = "vanilla"
    enable_confidence_head: bool = True
    confidence_head_with_markov: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_markov_head(self.markov_head_type)
        if self.markov_rank < 1:
            raise InputError(f"markov_rank must be 1 or more, got {self.markov_rank}")
        if len(self.temperatures) not in (0, self.num_drafts):
            raise InputError(
                f"{len(self.temperatures)} temperatures for {self.num_drafts} drafts; give one for "
                "each or none"
            )
        if any(not temperature > 0 for temperature in self.temperatures):
            raise InputError(f"temperatures must be above 0, got {list(self.temperatures)}")


class _ConfidenceHead(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 1)


class DSparkNet(DFlashNet):
    """DFlash's weights and those of the two heads."""

    config: DSparkConfig

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__(config)
        vocab, hidden, rank = config.body.vocab_size, config.body.hidden_size, config.markov_rank
        head = MARKOV_HEADS[config.markov_head_type]
        self.markov_head: VanillaMarkovHead = head(
            vocab, config.draft_vocab_size or vocab, rank, hidden
        )
        width = hidden + rank * config.confidence_head_with_markov
        self.confidence_head = _ConfidenceHead(width) if config.enable_confidence_head else None

    def doubt(self, hidden: torch.Tensor, previous_ids: torch.Tensor) -> torch.Tensor | None:
        """Confidence logits [...] of rows [..., hidden] and the tokens before them [...]; None
        where there is no confidence head."""
        if self.confidence_head is None:
            return None
        if self.config.confidence_head_with_markov:
            hidden = torch.cat((hidden, self.markov_head.markov_w1(previous_ids)), -1)
        return self.confidence_head.proj(hidden).squeeze(-1)

    def heads(
        self, hidden: torch.Tensor, previous_ids: torch.Tensor, state: MarkovState
    ) -> tuple[torch.Tensor, MarkovState, torch.Tensor | None]:
        """One draft of each block, arguments as for the Markov head -> what to add to its logits,
        the state for the next draft, and its confidence logit [...], None without such a head."""
        bias, state = self.markov_head(hidden, previous_ids, state)
        return bias, state, self.doubt(hidden, previous_ids)

    def follow(
        self, hidden: torch.Tensor, previous_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Both heads on all rows of blocks at once, as training wants it.

        hidden [..., hidden] from `forward`, previous_ids [...] -> what to add to the rows' logits
        [..., vocab], and confidence logits [...]. Must hold: a Markov head that keeps no state.
        """
        assert self.config.markov_head_type != "rnn", "an rnn goes draft by draft"
        bias, _, confidence = self.heads(hidden, previous_ids, None)
        assert confidence is not None, "no confidence head"
        return bias, confidence
