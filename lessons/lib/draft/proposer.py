"""What every drafting method looks like to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True)
class DraftProposal:
    """Tokens a proposer guesses will follow, in order; may be fewer than asked, even none.

    draft_probs [k, vocab] float32: the law each token was drawn from, made by `logits_to_probs`.
    None when the tokens were not drawn but picked (n-gram, argmax): a delta proposal.
    """

    token_ids: list[int]
    draft_probs: torch.Tensor | None = None


class Proposer(Protocol):
    """Owns all draft state of one request; knows nothing of the target's KV cache."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of weights and state this proposer holds now, beside the target's."""
        ...

    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """Guess at most num_draft_tokens continuations of the context (prompt and output)."""
        ...

    def observe(self, token_ids: Sequence[int]) -> None:
        """Learn which tokens the round committed: drop state built on rejected drafts."""
        ...

    def forget(self) -> None:
        """The request is over: release its state."""
        ...
