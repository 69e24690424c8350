"""The network of EAGLE-3: one decoder layer on the target's features (arXiv 2503.01840).

Row t takes the target's fused features of position t and the embedding of token t + 1, and predicts
token t + 2. A row behind the last feature takes the network's own output of the row before it
instead of features. Attention is the caller's: the drafter has a KV cache, training unrolls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn

from kernels.draft_topk import draft_topk
from kernels.runtime import InputError
from lessons.lib.config import ModelConfig
from lessons.lib.draft.draft_vocab import check_d2t, target_ids
from lessons.lib.model.features import check_layer_ids, eagle3_layers
from lessons.lib.model.llama import LlamaModel, rope_tables, rotate
from lessons.lib.model.weights import compare_tensors

_PARTS = {"qkv": ("q_proj", "k_proj", "v_proj"), "gate_up": ("gate_proj", "up_proj")}
_IN_LAYER = {  # what published checkpoints keep inside the layer, and under which name there
    **dict.fromkeys(("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"), "self_attn."),
    **dict.fromkeys(("gate_proj", "up_proj", "down_proj"), "mlp."),
    **dict.fromkeys(("input_layernorm", "hidden_norm", "post_attention_layernorm"), ""),
}
AUTHORS_LAYER = "midlayer"  # what the layer is called in the authors' checkpoints


@dataclass(frozen=True)
class Eagle3Config:
    """body: sizes of the layer, with the target's vocabulary and context. feature_layers: what it
    reads, in the order of concatenation. What differs between published drafters:

    target_hidden_size    width of a feature; the body's where None. A drafter that is not as wide
                          as its target needs has_embedding: an embedding of its own
    norm_before_residual  the residual is the normalised hidden, not the hidden itself
    norm_before_fc        one norm over the concatenated features; fc_norm: one for each of them
    norm_output           the next row gets this row's output after the final norm (EAGLE 3.1)
    """

    body: ModelConfig
    draft_vocab_size: int
    feature_layers: tuple[int, ...]
    target_hidden_size: int | None = None
    has_embedding: bool = False
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False

    def __post_init__(self) -> None:
        if self.norm_before_fc and self.fc_norm:
            raise InputError("norm_before_fc and fc_norm exclude each other")

    @property
    def feature_size(self) -> int:
        """Width of one target feature."""
        return self.target_hidden_size or self.body.hidden_size

    def check_target(self, target: ModelConfig) -> None:
        """Raise InputError where the drafter was made for a target of other sizes."""
        sizes = {"vocab_size": self.body.vocab_size, "hidden_size": self.feature_size}
        if not self.has_embedding:
            sizes["hidden_size"] = self.body.hidden_size
        for name, found in sizes.items():
            if found != getattr(target, name):
                raise InputError(
                    f"made for a target with {name} {found}, this one has {getattr(target, name)}"
                )
        check_layer_ids(self.feature_layers, target.num_layers)

    @classmethod
    def of(cls, target: ModelConfig, draft_vocab_size: int) -> Eagle3Config:
        """The authors' own: a Llama layer of the target's sizes that reads three of its layers."""
        if not 1 <= draft_vocab_size <= target.vocab_size:
            raise InputError(
                f"draft vocabulary of {draft_vocab_size}: choose 1 to {target.vocab_size}"
            )
        layers = eagle3_layers(target.num_layers)
        return cls(replace(target, has_qk_norm=False), draft_vocab_size, layers)


class Eagle3Net(nn.Module):
    """Weights [out, in] and the computation of rows. d2t [draft_vocab] int64: draft id -> offset
    to its target id. The embedding is the target's unless `embed_tokens` is there."""

    d2t: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config, body = config, config.body
        hidden, query, eps = body.hidden_size, body.num_heads * body.head_dim, body.rms_norm_eps
        qkv = query + 2 * body.num_kv_heads * body.head_dim
        self.embed_tokens = nn.Embedding(body.vocab_size, hidden) if config.has_embedding else None
        self._add_fusion()
        self.input_layernorm = nn.RMSNorm(hidden, eps)
        self.hidden_norm = nn.RMSNorm(hidden, eps)
        self.qkv = nn.Linear(2 * hidden, qkv, bias=False)
        self.q_norm = nn.RMSNorm(body.head_dim, eps) if body.has_qk_norm else None
        self.k_norm = nn.RMSNorm(body.head_dim, eps) if body.has_qk_norm else None
        self.o_proj = nn.Linear(query, hidden, bias=False)
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps)
        self.gate_up = nn.Linear(hidden, 2 * body.intermediate_size, bias=False)
        self.down_proj = nn.Linear(body.intermediate_size, hidden, bias=False)
        self.norm = nn.RMSNorm(hidden, eps)
        self.lm_head = nn.Linear(hidden, config.draft_vocab_size, bias=False)
        self.register_buffer("d2t", torch.zeros(config.draft_vocab_size, dtype=torch.int64))
        cos, sin = rope_tables(body, torch.float32, torch.device("cpu"))
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def _add_fusion(self) -> None:
        """fc and the norms that some drafters have before it."""
        config, eps = self.config, self.config.body.rms_norm_eps
        count, width = len(config.feature_layers), config.feature_size
        self.fc = nn.Linear(count * width, config.body.hidden_size, bias=False)
        self.input_norm = nn.RMSNorm(count * width, eps) if config.norm_before_fc else None
        each = [nn.RMSNorm(width, eps) for _ in range(count)] if config.fc_norm else []
        self.fc_norm = nn.ModuleList(each)

    @property
    def target_ids(self) -> torch.Tensor:
        """Target id of every draft id [draft_vocab] int64."""
        return target_ids(self.d2t)

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Hidden states of the target it reads."""
        return self.config.feature_layers

    @property
    def kv_shape(self) -> tuple[int, int]:
        """KV heads and their size."""
        return self.config.body.num_kv_heads, self.config.body.head_dim

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """Target features [..., features * feature_size] -> g [..., hidden]."""
        if self.input_norm is not None:
            features = self.input_norm(features)
        if self.fc_norm:
            parts = features.chunk(len(self.fc_norm), -1)
            features = torch.cat([n(p) for n, p in zip(self.fc_norm, parts, strict=True)], -1)
        return self.fc(features)

    def project(
        self, embeds: torch.Tensor, hidden: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """embeds (of token t + 1), hidden (g_t) [n, hidden], positions (t) [n] -> the residual
        stream [n, hidden], which is g_t itself unless norm_before_residual; query, key, value
        [n, (kv_)heads, head_dim], turned."""
        body = self.config.body
        heads, kv_heads = body.num_heads, body.num_kv_heads
        normed = self.hidden_norm(hidden)
        inputs = torch.cat([self.input_layernorm(embeds), normed], -1)
        qkv = self.qkv(inputs).unflatten(-1, (heads + 2 * kv_heads, body.head_dim))
        query_key, value = qkv.split([heads + kv_heads, kv_heads], dim=-2)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = query_key.split([heads, kv_heads], dim=-2)
            query_key = torch.cat([self.q_norm(query), self.k_norm(key)], -2)
        cos, sin = self.cos[positions, None], self.sin[positions, None]
        query_key = rotate(query_key, cos.to(query_key.dtype), sin.to(query_key.dtype))
        query, key = query_key.split([heads, kv_heads], dim=-2)
        return normed if self.config.norm_before_residual else hidden, query, key, value

    def finish(self, rows: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """The residual stream [n, hidden] and what attention gave [n, heads * head_dim] -> the
        output row, which is also the next row's hidden."""
        rows = rows + self.o_proj(mixed)
        gate, up = self.gate_up(self.post_attention_layernorm(rows)).chunk(2, dim=-1)
        rows = rows + self.down_proj(F.silu(gate) * up)
        return self.norm(rows) if self.config.norm_output else rows

    def head_input(self, hidden: torch.Tensor) -> torch.Tensor:
        """Output rows as the head wants them: after the final norm."""
        return hidden if self.config.norm_output else self.norm(hidden)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Output rows [n, hidden] -> logits over the draft vocabulary [n, draft_vocab]."""
        return self.lm_head(self.head_input(hidden))

    def top_k(self, hidden: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(log_probs, target ids) [n, count] of the likeliest tokens behind output rows."""
        return draft_topk(self.head_input(hidden), self.lm_head.weight, self.d2t, count)

    def target_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Output rows [n, hidden] -> logits [n, vocab]; nothing outside the draft vocabulary."""
        full = hidden.new_full((len(hidden), self.config.body.vocab_size), -torch.inf)
        full[:, self.target_ids] = self.logits(hidden)
        return full

    def to_tensors(self, layer: str = AUTHORS_LAYER) -> dict[str, torch.Tensor]:
        """Weights under the names of published checkpoints, which call the layer `layer`."""
        tensors: dict[str, torch.Tensor] = {}
        for name, tensor in self.state_dict().items():
            stem = name.removesuffix(".weight")
            parts = tensor.split(self._split_sizes(stem)) if stem in _PARTS else (tensor,)
            for part, value in zip(_PARTS.get(stem, (stem,)), parts, strict=True):
                tensors[_published_name(part, layer)] = value.detach().contiguous()
        return tensors

    def load_tensors(
        self, tensors: Mapping[str, torch.Tensor], source: str, layer: str = AUTHORS_LAYER
    ) -> None:
        """Inverse of `to_tensors`. Raises InputError naming the first tensor that does not fit."""
        found, expected = (
            {name: tuple(tensor.shape) for name, tensor in part.items()}
            for part in (tensors, self.to_tensors(layer))
        )
        compare_tensors(found, expected, source)
        state = {}
        for name in self.state_dict():
            stem = name.removesuffix(".weight")
            parts = [tensors[_published_name(part, layer)] for part in _PARTS.get(stem, (stem,))]
            state[name] = torch.cat(parts)
        self.load_state_dict(state)
        check_d2t(self.d2t, self.config.body.vocab_size, source)

    def set_vocabulary(self, target_ids: torch.Tensor) -> None:
        """Draft for these target ids [draft_vocab] int64, ascending."""
        self.d2t.copy_(target_ids - torch.arange(len(target_ids)))
        check_d2t(self.d2t, self.config.body.vocab_size, "draft vocabulary")

    def start_from(self, model: LlamaModel) -> None:
        """The target's own weights wherever a shape allows: its last layer and final norm, its
        input rows for the hidden half, and fc that passes the highest feature on."""
        layer, hidden = model.layers[-1], self.config.body.hidden_size
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
        body = self.config.body
        if stem == "gate_up":
            return [body.intermediate_size] * 2
        sizes = [body.num_heads, body.num_kv_heads, body.num_kv_heads]
        return [heads * body.head_dim for heads in sizes]


def _published_name(part: str, layer: str) -> str:
    if part == "d2t":
        return part
    return f"{layer}.{_IN_LAYER[part]}{part}.weight" if part in _IN_LAYER else f"{part}.weight"
