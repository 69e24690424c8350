"""The network of DFlash: a few decoder layers that fill in a block of masks in one pass.

The block is the last token (the anchor) and masks behind it. It attends to itself in both
directions and, in every layer, to keys and values made of the target's hidden states at the
positions before it. Embedding and head are the target's. Each row gives the law of its own
position, whatever the others turn out to be: marginals, not a joint law.
Architecture: arXiv 2602.06036; names of weights as in the authors' checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from kernels.linear import linear
from kernels.runtime import InputError
from lessons.lib.config import ModelConfig
from lessons.lib.draft.decoder import DecoderLayer, KeyValue, Rope, attend, check_shared
from lessons.lib.draft.draft_kv import DraftKV
from lessons.lib.draft.draft_vocab import check_d2t, target_ids
from lessons.lib.draft.lockstep import Steps, by_row
from lessons.lib.model.features import check_layer_ids
from lessons.lib.model.llama import LlamaModel


def dflash_layers(num_layers: int, count: int) -> tuple[int, ...]:
    """The target layers to read, by the convention of `model.features`.

    The authors space `count` ids evenly from 1 to num_layers - 3 (one: the middle) and read what
    LEAVES those layers; what leaves layer i enters layer i + 1.
    """
    if count == 1:
        return (num_layers // 2 + 1,)
    first, last = 1, num_layers - 3
    if count < 1 or last < first:
        raise InputError(f"cannot choose {count} feature layers of a target with {num_layers}")
    return tuple(round(first + i * (last - first) / (count - 1)) + 1 for i in range(count))


@dataclass(frozen=True)
class DFlashConfig:
    """body: sizes of the draft layers; hidden size and vocabulary are the target's.

    block_size counts the anchor; mask_token_id is a token that no text holds. What differs between
    published drafters:

    anchor_predicts   the anchor's row predicts the first draft; else the first mask's row does
    has_embedding     it has an embedding of its own; else it uses the target's
    draft_vocab_size  rows of its own head, if that is reduced with a map to the target's ids; None
                      where it uses the target's head
    """

    body: ModelConfig
    feature_layers: tuple[int, ...]
    block_size: int
    mask_token_id: int
    anchor_predicts: bool = False
    has_embedding: bool = False
    draft_vocab_size: int | None = None

    @property
    def num_drafts(self) -> int:
        """Drafts of a block."""
        return self.block_size - (not self.anchor_predicts)

    def __post_init__(self) -> None:
        if self.block_size < 2:
            raise InputError(f"block_size must be 2 or more, got {self.block_size}")
        if not self.feature_layers:
            raise InputError("feature_layers is empty; the drafter reads at least one layer")
        if not 0 <= self.mask_token_id < self.body.vocab_size:
            raise InputError(
                f"mask_token_id {self.mask_token_id} is outside the vocabulary of "
                f"{self.body.vocab_size}"
            )

    def check_target(self, target: ModelConfig) -> None:
        """Raise InputError where this drafter cannot share the target's tokens and states. Its rope
        is its own affair: it turns its own queries and keys alone."""
        check_shared(self.body, target)
        check_layer_ids(self.feature_layers, target.num_layers)


class _Layer(DecoderLayer):
    def project(
        self, rows: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query, key and value of the block's rows [..., n, hidden]."""
        normed = self.input_layernorm(rows)
        key, value = self.self_attn.key_value(normed, cos, sin)
        return self.self_attn.query(normed, cos, sin), key, value

    def forward(
        self,
        rows: torch.Tensor,
        context: KeyValue,
        cos: torch.Tensor,
        sin: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        query, *block = self.project(rows, cos, sin)
        key, value = (torch.cat(pair, -3) for pair in zip(context, block, strict=True))
        return self.finish(rows, attend(query, key, value, mask))

    def key_value(self, rows: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> KeyValue:
        """Of the context's rows, which pass no norm of the layer."""
        return self.self_attn.key_value(rows, cos, sin)


class DFlashNet(nn.Module):
    """Weights and computation; holds no state of any request, and embedding, head and d2t (draft id
    -> offset to its target id [draft_vocab] int64) only where the config says so."""

    d2t: torch.Tensor | None

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        self.config, body = config, config.body
        hidden = body.hidden_size
        self.fc = nn.Linear(len(config.feature_layers) * hidden, hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(hidden, body.rms_norm_eps)
        self.layers = nn.ModuleList(_Layer(body) for _ in range(body.num_layers))
        self.norm = nn.RMSNorm(hidden, body.rms_norm_eps)
        self._add_vocabulary()
        # A block may begin at the last position of the context and reach beyond it.
        reach = replace(body, max_context=body.max_context + config.block_size)
        self.rope = Rope(reach)

    def _add_vocabulary(self) -> None:
        vocab, hidden = self.config.body.vocab_size, self.config.body.hidden_size
        count = self.config.draft_vocab_size or 0
        self.embed_tokens = nn.Embedding(vocab, hidden) if self.config.has_embedding else None
        self.lm_head = nn.Linear(hidden, count, bias=False) if count else None
        is_reduced = 0 < count < vocab
        self.register_buffer("d2t", torch.zeros(count, dtype=torch.int64) if is_reduced else None)

    def check_vocabulary(self, source: str) -> None:
        """Raise InputError for a map of a reduced vocabulary that cannot be."""
        if self.d2t is not None:
            check_d2t(self.d2t, self.config.body.vocab_size, source)

    def embed(self, token_ids: torch.Tensor, target: LlamaModel) -> torch.Tensor:
        """token_ids [...] -> [..., hidden], by its own embedding or the target's."""
        own = self.embed_tokens
        return F.embedding(token_ids, target.embedding if own is None else own.weight)

    def base_logits(self, hidden: torch.Tensor, target: LlamaModel) -> torch.Tensor:
        """Rows [..., hidden] from `forward` -> logits [..., draft_vocab], by its own head or the
        target's."""
        return linear(hidden, target.packed_head if self.lm_head is None else self.lm_head.weight)

    def to_target_vocabulary(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [..., draft_vocab] -> [..., vocab]; what cannot be drafted gets -inf."""
        if self.d2t is None:
            return logits
        full = logits.new_full((*logits.shape[:-1], self.config.body.vocab_size), -torch.inf)
        full[..., target_ids(self.d2t)] = logits
        return full

    def context(self, features: torch.Tensor, positions: torch.Tensor) -> list[KeyValue]:
        """Keys and values that the block sees of committed tokens, one pair a layer.

        features [..., n, len(feature_layers) * hidden] of absolute `positions` [..., n] int64. A
        position depends on its own features alone, so what was made once stays true.
        """
        rows = self.hidden_norm(self.fc(features))
        turn = self.rope(positions)
        return [cast(_Layer, layer).key_value(rows, *turn) for layer in self.layers]

    def forward(
        self,
        embeds: torch.Tensor,
        positions: torch.Tensor,
        context: Sequence[KeyValue],
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """One pass over blocks: embeds [..., rows, hidden] of anchor and masks at absolute
        `positions` [..., rows] -> hidden states [..., rows, hidden] for the target's head.

        mask [..., rows, n + rows] bool: what a row sees of context and rows, for several blocks in
        one pass in training; None is everything, which is right for one block.
        """
        rows, turn = embeds, self.rope(positions)
        for layer, key_value in zip(self.layers, context, strict=True):
            rows = layer(rows, key_value, *turn, mask)
        return self.norm(rows)

    def block_steps(
        self, embeds: torch.Tensor, positions: torch.Tensor, context: Sequence[DraftKV]
    ) -> Steps[torch.Tensor]:
        """`forward` over one block in steps that can be shared, on keys and values that are kept.

        The block's own are behind the context's while its rows look at them, and then dropped.
        """
        rows, turn = embeds, self.rope(positions)
        for module, kv in zip(self.layers, context, strict=True):
            layer, known = cast(_Layer, module), kv.length
            query, key, value = yield by_row(layer.project, rows, *turn)
            kv.append(key, value)
            mixed = kv.attend(query, None, query.shape[-1] ** -0.5)
            kv.truncate(known)
            rows = yield by_row(layer.finish, rows, mixed)
        return (yield by_row(self.norm, rows))
