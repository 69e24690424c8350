"""DSpark's Markov head: what the token before a draft adds to the logits of the draft.

All kinds are low-rank: W1 embeds the token before in `rank` numbers, W2 turns such numbers into one
addition for each token of the draft vocabulary. They differ in what they do in between. Source:
arXiv 2607.05147; names of weights and arithmetic as in deepseek-ai/DeepSpec
deepspec/modeling/dspark/markov_head.py at afdfa7c.
"""

from __future__ import annotations

import torch
from torch import nn

from kernels.runtime import InputError

MarkovState = torch.Tensor | None  # what a head remembers of the block so far; None at its start


class VanillaMarkovHead(nn.Module):
    """W2 W1[token before]: no memory, no look at the row."""

    def __init__(self, vocab_size: int, draft_vocab_size: int, rank: int, hidden_size: int) -> None:
        super().__init__()
        self.rank = rank
        self.markov_w1 = nn.Embedding(vocab_size, rank)
        self.markov_w2 = nn.Linear(rank, draft_vocab_size, bias=False)

    def forward(
        self, hidden: torch.Tensor, previous_ids: torch.Tensor, state: MarkovState
    ) -> tuple[torch.Tensor, MarkovState]:
        """One draft of each block: its row hidden [..., hidden] and the token before it [...] ->
        what to add to its logits [..., draft_vocab], and the state for the next draft."""
        return self.markov_w2(self.markov_w1(previous_ids)), None


class GatedMarkovHead(VanillaMarkovHead):
    """The row decides, number by number, how much of the token before counts."""

    def __init__(self, vocab_size: int, draft_vocab_size: int, rank: int, hidden_size: int) -> None:
        super().__init__(vocab_size, draft_vocab_size, rank, hidden_size)
        self.gate_proj = nn.Linear(hidden_size + rank, rank)

    def forward(
        self, hidden: torch.Tensor, previous_ids: torch.Tensor, state: MarkovState
    ) -> tuple[torch.Tensor, MarkovState]:
        """As above."""
        before = self.markov_w1(previous_ids)
        gate = self.gate_proj(torch.cat((hidden, before), -1)).sigmoid()
        return self.markov_w2(gate * before), None


class RnnMarkovHead(VanillaMarkovHead):
    """A recurrent state, zero at the start of a block, tells of all drafts before."""

    def __init__(self, vocab_size: int, draft_vocab_size: int, rank: int, hidden_size: int) -> None:
        super().__init__(vocab_size, draft_vocab_size, rank, hidden_size)
        self.joint_proj = nn.Linear(2 * rank + hidden_size, 3 * rank)

    def forward(
        self, hidden: torch.Tensor, previous_ids: torch.Tensor, state: MarkovState
    ) -> tuple[torch.Tensor, MarkovState]:
        """As above; the state [..., rank] is new with every draft."""
        before = self.markov_w1(previous_ids)
        old = torch.zeros_like(before) if state is None else state
        gate, candidate, out = self.joint_proj(torch.cat((old, before, hidden), -1)).chunk(3, -1)
        gate = gate.sigmoid()
        return self.markov_w2(out.tanh()), gate * old + (1 - gate) * candidate.tanh()


MARKOV_HEADS = {"vanilla": VanillaMarkovHead, "gated": GatedMarkovHead, "rnn": RnnMarkovHead}


def check_markov_head(kind: str) -> None:
    """Raise InputError for an unknown kind."""
    if kind not in MARKOV_HEADS:
        raise InputError(f"markov_head_type {kind!r} is unknown; known: {', '.join(MARKOV_HEADS)}")
