"""The network of a multi-token prediction module (DeepSeek-V3, arXiv 2412.19437 section 2.2).

Two norms, a projection of [embedding; hidden] to one row, one whole decoder block. Embedding and
head are the target's, by reference. Names of weights are those of Qwen3-Next's `mtp.*`, and so is
the choice of the state that is passed on: the one behind the final norm, of the target as of the
module itself (DeepSeek passes its own on from before the norm, see `norm_output`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from kernels.draft_topk import draft_topk
from kernels.linear import linear
from kernels.runtime import InputError
from lessons.lib.config import ModelConfig
from lessons.lib.draft.decoder import DecoderLayer, Rope, check_shared
from lessons.lib.draft.draft_vocab import target_ids
from lessons.lib.model.llama import LlamaModel


@dataclass(frozen=True)
class MtpConfig:
    """body: sizes of the block, one layer; num_target_layers tells the target it reads.

    norm_output: the next row gets this row's output after the final norm, which the head reads;
    where it is not so (DeepSeek) it gets it from before.
    """

    body: ModelConfig
    num_target_layers: int
    norm_output: bool = True

    def __post_init__(self) -> None:
        if self.body.num_layers != 1:
            raise InputError(f"an MTP module has one block, not {self.body.num_layers}")

    @classmethod
    def of(cls, target: ModelConfig) -> MtpConfig:
        """A block of the target's own sizes."""
        return cls(replace(target, num_layers=1), target.num_layers)

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """What leaves the target's last layer."""
        return (self.num_target_layers,)

    def check_target(self, target: ModelConfig) -> None:
        """Raise InputError where this module cannot share embedding, head and states."""
        check_shared(self.body, target)
        if self.num_target_layers != target.num_layers:
            raise InputError(
                f"drafter reads a target of {self.num_target_layers} layers, this one has "
                f"{target.num_layers}"
            )


class MtpNet(nn.Module):
    """Weights and computation of rows, by `OneLayerNet`."""

    d2t: torch.Tensor
    head: torch.Tensor
    target_norm: torch.Tensor

    def __init__(self, config: MtpConfig, target: LlamaModel) -> None:
        """Takes head and final norm of the target by reference; they are never saved with it."""
        super().__init__()
        config.check_target(target.config)
        self.config, body = config, config.body
        hidden, eps = body.hidden_size, body.rms_norm_eps
        self.pre_fc_norm_embedding = nn.RMSNorm(hidden, eps)
        self.pre_fc_norm_hidden = nn.RMSNorm(hidden, eps)
        self.fc = nn.Linear(2 * hidden, hidden, bias=False)
        self.layers = nn.ModuleList([DecoderLayer(body)])
        self.norm = nn.RMSNorm(hidden, eps)
        self.embed_tokens = None
        self.rope = Rope(body)
        shared = {"head": target.lm_head, "target_norm": target.final_norm}
        shared["d2t"] = torch.zeros(body.vocab_size, dtype=torch.int64)
        for name, tensor in shared.items():
            self.register_buffer(name, tensor, persistent=False)

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """What leaves the target's last layer."""
        return self.config.feature_layers

    @property
    def kv_shape(self) -> tuple[int, int]:
        """KV heads and their size."""
        return self.config.body.num_kv_heads, self.config.body.head_dim

    @property
    def target_ids(self) -> torch.Tensor:
        """Target id of every draft id [vocab] int64: the head is the whole one."""
        return target_ids(self.d2t)

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """The target's last state [..., hidden], which comes without its norm -> with it."""
        weight = self.target_norm.to(features.dtype)
        return F.rms_norm(features, weight.shape, weight, self.config.body.rms_norm_eps)

    def project(
        self, embeds: torch.Tensor, hidden: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """As in `OneLayerNet`; the residual stream begins with the projection."""
        both = self.pre_fc_norm_embedding(embeds), self.pre_fc_norm_hidden(hidden)
        rows = self.fc(torch.cat(both, -1))
        normed, turn = self._block.input_layernorm(rows), self.rope(positions)
        attention = self._block.self_attn
        return rows, attention.query(normed, *turn), *attention.key_value(normed, *turn)

    def finish(self, rows: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """As in `OneLayerNet`."""
        rows = self._block.finish(rows, mixed)
        return self.norm(rows) if self.config.norm_output else rows

    def head_input(self, hidden: torch.Tensor) -> torch.Tensor:
        """Output rows as the head wants them: after the final norm."""
        return hidden if self.config.norm_output else self.norm(hidden)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Output rows [n, hidden] -> logits [n, vocab]."""
        return linear(self.head_input(hidden), self.head)

    def target_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The same: no token is left out."""
        return self.logits(hidden)

    def top_k(self, hidden: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(log_probs, target ids) [n, count] of the likeliest tokens behind output rows."""
        return draft_topk(self.head_input(hidden), self.head, self.d2t, count)

    def start_from(self, model: LlamaModel) -> None:
        """The target's last layer and final norm, and a projection that passes both halves on."""
        hidden = model.config.hidden_size
        with torch.no_grad():
            self._block.copy_from(model.layers[-1])
            self.norm.weight.copy_(model.final_norm)
            self.fc.weight.mul_(0.1)
            self.fc.weight += torch.eye(hidden).repeat(1, 2)

    @property
    def _block(self) -> DecoderLayer:
        return cast(DecoderLayer, self.layers[0])
