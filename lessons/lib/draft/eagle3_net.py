"""The network of EAGLE-3: one decoder layer on the target's features (arXiv 2503.01840).

Row t takes the target's fused features of position t and the embedding of token t + 1, and predicts
token t + 2. A row behind the last feature takes the network's own output of the row before it
instead of features. Attention is the caller's: the drafter has a KV cache, training unrolls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from kernels.draft_topk import draft_topk
from kernels.runtime import InputError
from lessons.lib.config import ModelConfig
from lessons.lib.model.features import eagle3_layers
from lessons.lib.model.llama import LlamaModel, rope_tables, rotate

_PARTS = {"qkv": ("q_proj", "k_proj", "v_proj"), "gate_up": ("gate_proj", "up_proj")}


@dataclass(frozen=True)
class Eagle3Config:
    """The target it drafts for, the layers it reads and the size of its vocabulary."""

    target: ModelConfig
    draft_vocab_size: int
    feature_layers: tuple[int, ...]

    @classmethod
    def of(cls, target: ModelConfig, draft_vocab_size: int) -> Eagle3Config:
        """The paper's three layers."""
        if not 1 <= draft_vocab_size <= target.vocab_size:
            raise InputError(
                f"draft vocabulary of {draft_vocab_size}: choose 1 to {target.vocab_size}"
            )
        return cls(target, draft_vocab_size, eagle3_layers(target.num_layers))


class Eagle3Net(nn.Module):
    """Weights [out, in] and the computation of rows. d2t [draft_vocab] int64: draft id -> offset
    to its target id. The embedding is the target's and is passed in."""

    d2t: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config, target = config, config.target
        hidden, query = target.hidden_size, target.num_heads * target.head_dim
        qkv = query + 2 * target.num_kv_heads * target.head_dim
        self.fc = nn.Linear(len(config.feature_layers) * hidden, hidden, bias=False)
        self.input_layernorm = nn.RMSNorm(hidden, target.rms_norm_eps)
        self.hidden_norm = nn.RMSNorm(hidden, target.rms_norm_eps)
        self.qkv = nn.Linear(2 * hidden, qkv, bias=False)
        self.o_proj = nn.Linear(query, hidden, bias=False)
        self.post_attention_layernorm = nn.RMSNorm(hidden, target.rms_norm_eps)
        self.gate_up = nn.Linear(hidden, 2 * target.intermediate_size, bias=False)
        self.down_proj = nn.Linear(target.intermediate_size, hidden, bias=False)
        self.norm = nn.RMSNorm(hidden, target.rms_norm_eps)
        self.lm_head = nn.Linear(hidden, config.draft_vocab_size, bias=False)
        self.register_buffer("d2t", torch.zeros(config.draft_vocab_size, dtype=torch.int64))
        cos, sin = rope_tables(target, torch.float32, torch.device("cpu"))
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    @property
    def target_ids(self) -> torch.Tensor:
        """Target id of every draft id [draft_vocab] int64."""
        return self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)

    @property
    def kv_shape(self) -> tuple[int, int]:
        """KV heads and their size."""
        return self.config.target.num_kv_heads, self.config.target.head_dim

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """Target features [..., 3 * hidden] -> g [..., hidden]."""
        return self.fc(features)

    def project(
        self, embeds: torch.Tensor, hidden: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """embeds (of token t + 1), hidden (g_t) [n, hidden], positions (t) [n] -> the residual
        stream [n, hidden], which is g_t itself, not its norm; query, key, value
        [n, (kv_)heads, head_dim], turned."""
        target = self.config.target
        heads, kv_heads = target.num_heads, target.num_kv_heads
        inputs = torch.cat([self.input_layernorm(embeds), self.hidden_norm(hidden)], -1)
        qkv = self.qkv(inputs).unflatten(-1, (heads + 2 * kv_heads, target.head_dim))
        query_key, value = qkv.split([heads + kv_heads, kv_heads], dim=-2)
        cos, sin = self.cos[positions, None], self.sin[positions, None]
        query_key = rotate(query_key, cos.to(query_key.dtype), sin.to(query_key.dtype))
        query, key = query_key.split([heads, kv_heads], dim=-2)
        return hidden, query, key, value

    def finish(self, rows: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """The residual stream [n, hidden] and what attention gave [n, heads * head_dim] -> the
        output row, which is also the next row's hidden."""
        rows = rows + self.o_proj(mixed)
        gate, up = self.gate_up(self.post_attention_layernorm(rows)).chunk(2, dim=-1)
        return rows + self.down_proj(F.silu(gate) * up)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Output rows [n, hidden] -> logits over the draft vocabulary [n, draft_vocab]."""
        return self.lm_head(self.norm(hidden))

    def top_k(self, hidden: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(log_probs, target ids) [n, count] of the likeliest tokens behind output rows."""
        return draft_topk(self.norm(hidden), self.lm_head.weight, self.d2t, count)

    def target_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Output rows [n, hidden] -> logits [n, vocab]; nothing outside the draft vocabulary."""
        full = hidden.new_full((len(hidden), self.config.target.vocab_size), -torch.inf)
        full[:, self.target_ids] = self.logits(hidden)
        return full

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """Weights under the names of the authors' checkpoints."""
        tensors: dict[str, torch.Tensor] = {}
        for name, tensor in self.state_dict().items():
            stem = name.removesuffix(".weight")
            parts = tensor.split(self._split_sizes(stem)) if stem in _PARTS else (tensor,)
            for part, value in zip(_PARTS.get(stem, (stem,)), parts, strict=True):
                tensors[_published_name(part)] = value.detach().contiguous()
        return tensors

    def load_tensors(self, tensors: Mapping[str, torch.Tensor], source: str) -> None:
        """Inverse of `to_tensors`. Raises InputError naming the first tensor that does not fit."""
        expected = self.to_tensors()
        for name in [*expected, *tensors]:
            if name not in tensors or name not in expected:
                problem = "is missing" if name in expected else "is unknown"
                raise InputError(f"{source}: tensor {name} {problem}")
            found, wanted = list(tensors[name].shape), list(expected[name].shape)
            if found != wanted:
                raise InputError(f"{source}: tensor {name} has shape {found}, expected {wanted}")
        state = {}
        for name in self.state_dict():
            stem = name.removesuffix(".weight")
            parts = [tensors[_published_name(part)] for part in _PARTS.get(stem, (stem,))]
            state[name] = torch.cat(parts)
        self.load_state_dict(state)
        self._check_d2t(source)

    def set_vocabulary(self, target_ids: torch.Tensor) -> None:
        """Draft for these target ids [draft_vocab] int64, ascending."""
        self.d2t.copy_(target_ids - torch.arange(len(target_ids)))
        self._check_d2t("draft vocabulary")

    def start_from(self, model: LlamaModel) -> None:
        """The target's own weights wherever a shape allows: its last layer and final norm, its
        input rows for the hidden half, and fc that passes the highest feature on."""
        layer, hidden = model.layers[-1], model.config.hidden_size
        copies = {
            self.hidden_norm.weight: layer.attn_norm,
            self.input_layernorm.weight: model.layers[0].attn_norm,
            self.o_proj.weight: layer.attn_out.to_dense(),
            self.post_attention_layernorm.weight: layer.mlp_norm,
            self.gate_up.weight: layer.gate_up.to_dense(),
            self.down_proj.weight: layer.down.to_dense(),
            self.norm.weight: model.final_norm,
            self.lm_head.weight: model.lm_head[self.target_ids.to(model.device)],
        }
        with torch.no_grad():
            for own, weight in copies.items():
                own.copy_(weight)
            self.qkv.weight[:, hidden:].copy_(layer.qkv.to_dense())
            self.qkv.weight[:, :hidden].copy_(model.layers[0].qkv.to_dense())
            self.fc.weight.mul_(0.1)
            self.fc.weight[:, -hidden:] += torch.eye(hidden)

    def _split_sizes(self, stem: str) -> list[int]:
        target = self.config.target
        if stem == "gate_up":
            return [target.intermediate_size] * 2
        sizes = [target.num_heads, target.num_kv_heads, target.num_kv_heads]
        return [heads * target.head_dim for heads in sizes]

    def _check_d2t(self, source: str) -> None:
        ids = self.target_ids
        if int(ids.min()) < 0 or int(ids.max()) >= self.config.target.vocab_size:
            raise InputError(f"{source}: d2t maps outside the target's vocabulary")
        if ids.unique().numel() != ids.numel():
            raise InputError(f"{source}: d2t maps two draft ids to one target id")


def _published_name(part: str) -> str:
    if part in ("fc", "norm", "lm_head"):
        return f"{part}.weight"
    if part == "d2t":
        return part
    inner = {"q": "self_attn.", "k": "self_attn.", "v": "self_attn.", "o": "self_attn."}
    inner |= dict.fromkeys(("gate", "up", "down"), "mlp.")
    stem, _, kind = part.partition("_")
    return f"midlayer.{inner[stem] if kind == 'proj' else ''}{part}.weight"
