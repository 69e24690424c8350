"""The control that every acceptance table needs: a drafter that knows only the last token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.train.data import Sample


def bigram_table(samples: Iterable[Sample], vocab_size: int) -> torch.Tensor:
    """The likeliest next token of every token in the responses [vocab] int64, itself if unseen."""
    pairs = np.concatenate(
        [
            np.stack([s.token_ids[s.prompt_len - 1 : -1], s.token_ids[s.prompt_len :]])
            for s in samples
        ],
        axis=1,
    ).astype(np.int64)
    keys, counts = np.unique(pairs[0] * vocab_size + pairs[1], return_counts=True)
    table = np.arange(vocab_size)
    order = np.argsort(counts, kind="stable")  # the most frequent is written last
    table[keys[order] // vocab_size] = keys[order] % vocab_size
    return torch.from_numpy(table)


class BigramProposer:
    """Drafts the chain of likeliest next tokens. Its only state is the table."""

    def __init__(self, table: torch.Tensor) -> None:
        """table [vocab] int64, from `bigram_table`."""
        self._next = table.tolist()
        self.memory_bytes = table.numel() * table.element_size()

    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """Always as many as may be proposed."""
        tokens = [self._next[context_ids[-1]]]
        while len(tokens) < num_draft_tokens:
            tokens.append(self._next[tokens[-1]])
        return DraftProposal(tokens)

    def observe(self, token_ids: Sequence[int]) -> None:
        """Nothing to do."""

    def forget(self) -> None:
        """Nothing to release."""
