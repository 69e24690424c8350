"""A small model of its own, for drafting: a few decoder layers with an embedding and a head.

The one this course ships keeps neither of the last two: they are the target's, by reference, which
at this size would be most of it (57 of 71 MB). Its layers are its own, and so is its KV: it knows
nothing of the target but the tokens. This is the form it is trained in; it drafts as a LlamaModel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from kernels.runtime import InputError
from lessons.lib.config import ModelConfig
from lessons.lib.draft.decoder import DecoderLayer, Rope, attend, check_shared
from lessons.lib.model.features import check_layer_ids
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.weights import EMBEDDING, FINAL_NORM, LM_HEAD, build_model


@dataclass(frozen=True)
class StandaloneConfig:
    """body: sizes of the small model; hidden size, vocabulary and rope are the target's."""

    body: ModelConfig

    @classmethod
    def of(cls, target: ModelConfig, num_layers: int) -> StandaloneConfig:
        """`num_layers` layers of the target's sizes."""
        if not 1 <= num_layers < target.num_layers:
            raise InputError(f"{num_layers} layers: choose 1 to {target.num_layers - 1}")
        return cls(replace(target, num_layers=num_layers))


class StandaloneNet(nn.Module):
    """Whole texts in one pass; names of weights as in Llama checkpoints, without `model.`."""

    embedding: torch.Tensor
    head: torch.Tensor

    def __init__(self, config: StandaloneConfig, target: LlamaModel) -> None:
        """Takes embedding and head of the target by reference; they are never saved with it."""
        super().__init__()
        check_shared(config.body, target.config)
        self.config, body = config, config.body
        self.layers = nn.ModuleList(DecoderLayer(body) for _ in range(body.num_layers))
        self.norm = nn.RMSNorm(body.hidden_size, body.rms_norm_eps)
        self.rope = Rope(body)
        self.register_buffer("embedding", target.embedding, persistent=False)
        self.register_buffer("head", target.lm_head, persistent=False)

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        """token_ids [..., t] -> what the head reads [..., t, hidden] to predict the next token."""
        count = token_ids.shape[-1]
        rows = F.embedding(token_ids, self.embedding).to(self.norm.weight.dtype)
        turn = self.rope(torch.arange(count, device=token_ids.device))
        seen = torch.ones(count, count, dtype=torch.bool, device=token_ids.device).tril()
        for module in self.layers:
            layer = cast(DecoderLayer, module)
            normed = layer.input_layernorm(rows)
            key, value = layer.self_attn.key_value(normed, *turn)
            query = layer.self_attn.query(normed, *turn)
            rows = layer.finish(rows, attend(query, key, value, seen))
        return self.norm(rows)

    def start_from(self, model: LlamaModel, layer_ids: Sequence[int]) -> None:
        """The target with all layers but these cut out."""
        check_layer_ids(layer_ids, model.config.num_layers - 1)
        for module, layer_id in zip(self.layers, layer_ids, strict=True):
            cast(DecoderLayer, module).copy_from(model.layers[layer_id])
        with torch.no_grad():
            self.norm.weight.copy_(model.final_norm)

    def to_model(self, target: LlamaModel) -> LlamaModel:
        """The same model for the engine's forward, in the target's dtype and on its device."""
        tensors = {
            f"model.{name}": tensor.detach().to(target.device, target.dtype)
            for name, tensor in self.state_dict().items()
        }
        assert FINAL_NORM in tensors
        tensors |= {EMBEDDING: target.embedding, LM_HEAD: target.lm_head}
        model = build_model(self.config.body, tensors)
        model.share_head(target)
        return model
