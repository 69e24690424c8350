"""The network of FROZEN_KV_MTP: decoder layers that have queries but no keys and values.

What they look at are keys and values that layers of the target computed for its own use; a map
says which layer looks where. A step takes [embedding of the last token; a state] through
`pre_projection` and gives, through `post_projection`, the state of the next step. Form and names
follow the Gemma 4 assistants (transformers 5.24 `gemma4_assistant`, SGLang `models/gemma4_mtp.py`),
with this course's decoder layer, and with the target's head instead of one of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from kernels.runtime import InputError
from lessons.lib.config import ModelConfig
from lessons.lib.draft.decoder import DecoderLayer, Rope, check_shared
from lessons.lib.model.features import check_layer_ids
from lessons.lib.model.llama import LlamaModel


@dataclass(frozen=True)
class FrozenKvConfig:
    """body: sizes of the draft layers, heads as the target's; kv_layers: for each of them the layer
    of the target (of num_target_layers) whose keys and values it reads."""

    body: ModelConfig
    kv_layers: tuple[int, ...]
    num_target_layers: int

    def __post_init__(self) -> None:
        if not self.kv_layers or self.body.num_layers != len(self.kv_layers):
            raise InputError(
                f"{self.body.num_layers} draft layers, but kv_layers names "
                f"{len(self.kv_layers)}: give one target layer for each"
            )
        check_layer_ids(self.kv_layers, self.num_target_layers - 1)

    @classmethod
    def of(cls, target: ModelConfig, num_layers: int) -> FrozenKvConfig:
        """The last layers of the target, as in Gemma 4."""
        if not 1 <= num_layers <= target.num_layers:
            raise InputError(f"{num_layers} draft layers: choose 1 to {target.num_layers}")
        kv_layers = tuple(range(target.num_layers - num_layers, target.num_layers))
        return cls(replace(target, num_layers=num_layers), kv_layers, target.num_layers)

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """What leaves the target's last layer."""
        return (self.num_target_layers,)

    def check_target(self, target: ModelConfig) -> None:
        """Raise InputError where this drafter cannot read the target's states, keys and values."""
        check_shared(self.body, target)
        if self.num_target_layers != target.num_layers:
            raise InputError(
                f"drafter reads a target of {self.num_target_layers} layers, this one has "
                f"{target.num_layers}"
            )
        for name in ("num_kv_heads", "head_dim", "has_qk_norm", "rope_theta", "rope_scaling"):
            mine, wanted = getattr(self.body, name), getattr(target, name)
            if mine != wanted:
                raise InputError(f"drafter has {name} {mine}, the target {wanted}")


class FrozenKvNet(nn.Module):
    """Weights and the computation of a step; holds no keys and values, of nobody."""

    head: torch.Tensor
    target_norm: torch.Tensor

    def __init__(self, config: FrozenKvConfig, target: LlamaModel) -> None:
        """Takes head and final norm of the target by reference; they are never saved with it."""
        super().__init__()
        config.check_target(target.config)
        self.config, body = config, config.body
        hidden = body.hidden_size
        self.pre_projection = nn.Linear(2 * hidden, hidden, bias=False)
        self.layers = nn.ModuleList(
            DecoderLayer(body, has_key_value=False) for _ in config.kv_layers
        )
        self.norm = nn.RMSNorm(hidden, body.rms_norm_eps)
        self.post_projection = nn.Linear(hidden, hidden, bias=False)
        self.rope = Rope(body)
        self.register_buffer("head", target.lm_head, persistent=False)
        self.register_buffer("target_norm", target.final_norm, persistent=False)

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """The target's last state [..., hidden], which comes without its norm -> with it."""
        weight = self.target_norm.to(features.dtype)
        return F.rms_norm(features, weight.shape, weight, self.config.body.rms_norm_eps)

    def forward(
        self,
        embeds: torch.Tensor,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        attend: Callable[[int, torch.Tensor], torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One step of n rows: embeds of the last tokens and states [..., n, hidden] -> what the
        head reads and the states of the next step [..., n, hidden].

        positions [n]: of the last committed token of each row, at every step the same.
        attend(target layer, query [..., n, heads, head_dim], turned) -> [..., n, heads * head_dim].
        """
        rows = self.pre_projection(torch.cat((embeds.to(hidden.dtype), hidden), -1))
        turn = self.rope(positions)
        for module, kv_layer in zip(self.layers, self.config.kv_layers, strict=True):
            layer = cast(DecoderLayer, module)
            query = layer.self_attn.query(layer.input_layernorm(rows), *turn)
            rows = layer.finish(rows, attend(kv_layer, query))
        output = self.norm(rows)
        return output, self.post_projection(output)

    def start_from(self, model: LlamaModel) -> None:
        """Each layer from the one whose keys it reads, and projections that pass things on."""
        eye = torch.eye(model.config.hidden_size)
        with torch.no_grad():
            for module, kv_layer in zip(self.layers, self.config.kv_layers, strict=True):
                cast(DecoderLayer, module).copy_from(model.layers[kv_layer])
            self.norm.weight.copy_(model.final_norm)
            self.pre_projection.weight.mul_(0.1).add_(eye.repeat(1, 2))
            self.post_projection.weight.copy_(eye)
