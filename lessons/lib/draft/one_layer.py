"""What EAGLE-3 and MTP have in common: one layer that reads a hidden state and the token behind it.

Row t takes a state of position t (the target's, or where that one does not exist yet the layer's
own output of the row before) and the embedding of token t + 1, and predicts token t + 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch


class OneLayerNet(Protocol):
    """The computation of rows, leading dims free. Keys and values are the caller's to keep: the
    drafter has a cache, training unrolls."""

    d2t: torch.Tensor  # [draft_vocab] int64: draft id -> offset to its target id

    @property
    def embed_tokens(self) -> torch.nn.Embedding | None:
        """Its own embedding; None where it takes the target's."""
        ...

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Hidden states of the target it reads, by the convention of `model.features`."""
        ...

    @property
    def kv_shape(self) -> tuple[int, int]:
        """KV heads and their size."""
        ...

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """The target's features [..., layers * hidden] -> the state of a row [..., hidden]."""
        ...

    def project(
        self, embeds: torch.Tensor, hidden: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """embeds of token t + 1 and state of t [..., n, hidden], positions t [n] -> the residual
        stream [..., n, hidden] and query, key, value [..., n, (kv_)heads, head_dim], turned."""
        ...

    def finish(self, rows: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """The residual stream and what attention gave [..., heads * head_dim] -> the output row,
        which is also the state of the next row."""
        ...

    def top_k(self, hidden: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(log_probs, target ids) [n, count] of the likeliest tokens behind output rows."""
        ...

    def target_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Output rows [n, hidden] -> logits [n, vocab] over the target's vocabulary."""
        ...

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Weights of its own, for the count of memory."""
        ...
