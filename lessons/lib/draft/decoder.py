"""A decoder layer as the drafters need it: its parts apart, because each has its own idea of where
keys and values come from and how long they live. Names of weights are Llama's and Qwen3's.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from kernels.runtime import InputError
from lessons.lib.config import ModelConfig
from lessons.lib.model.llama import LayerWeights, rope_tables, rotate

KeyValue = tuple[torch.Tensor, torch.Tensor]  # both [..., positions, kv_heads, head_dim]


def check_shared(body: ModelConfig, target: ModelConfig) -> None:
    """Raise InputError where draft layers cannot share the target's tokens and states."""
    for name in ("hidden_size", "vocab_size"):
        mine, wanted = getattr(body, name), getattr(target, name)
        if mine != wanted:
            raise InputError(f"drafter has {name} {mine}, the target {wanted}")


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """query [..., n, heads, head_dim], key and value [..., m, kv_heads, head_dim], mask [..., n, m]
    bool of what a row sees (None: everything) -> [..., n, heads * head_dim]."""
    query, key, value = (part.transpose(-3, -2) for part in (query, key, value))
    mixed = F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
    return mixed.transpose(-3, -2).flatten(-2)


class Rope(nn.Module):
    """The tables that turn queries and keys; part of no checkpoint."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, body: ModelConfig) -> None:
        super().__init__()
        cos, sin = rope_tables(body, torch.float32, torch.device("cpu"))
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin [..., n, 1, head_dim] of positions [..., n] int64."""
        return self.cos[positions].unsqueeze(-2), self.sin[positions].unsqueeze(-2)


class Attention(nn.Module):
    """Projections and head norms. has_key_value False: a layer that reads another one's."""

    def __init__(self, body: ModelConfig, has_key_value: bool = True) -> None:
        super().__init__()
        hidden, head_dim = body.hidden_size, body.head_dim
        self.body, self.has_key_value = body, has_key_value
        self.q_proj = nn.Linear(hidden, body.num_heads * head_dim, bias=False)
        if has_key_value:
            self.k_proj = nn.Linear(hidden, body.num_kv_heads * head_dim, bias=False)
            self.v_proj = nn.Linear(hidden, body.num_kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(body.num_heads * head_dim, hidden, bias=False)
        if body.has_qk_norm:
            self.q_norm = nn.RMSNorm(head_dim, body.rms_norm_eps)
        if body.has_qk_norm and has_key_value:
            self.k_norm = nn.RMSNorm(head_dim, body.rms_norm_eps)

    def query(self, rows: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """rows [..., n, hidden] -> [..., n, heads, head_dim], turned; cos, sin [..., n, 1, hd]."""
        query = self.q_proj(rows).unflatten(-1, (-1, self.body.head_dim))
        query = self.q_norm(query) if self.body.has_qk_norm else query
        return rotate(query, cos.to(query.dtype), sin.to(query.dtype))

    def key_value(self, rows: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> KeyValue:
        """The same for keys, and values."""
        key = self.k_proj(rows).unflatten(-1, (-1, self.body.head_dim))
        value = self.v_proj(rows).unflatten(-1, (-1, self.body.head_dim))
        key = self.k_norm(key) if self.body.has_qk_norm else key
        return rotate(key, cos.to(key.dtype), sin.to(key.dtype)), value


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, body: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(body.hidden_size, body.intermediate_size, bias=False)
        self.up_proj = nn.Linear(body.hidden_size, body.intermediate_size, bias=False)
        self.down_proj = nn.Linear(body.intermediate_size, body.hidden_size, bias=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """[..., hidden] -> [..., hidden]."""
        return self.down_proj(F.silu(self.gate_proj(rows)) * self.up_proj(rows))


class DecoderLayer(nn.Module):
    """Weights of a layer; attention itself is the caller's."""

    def __init__(self, body: ModelConfig, has_key_value: bool = True) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(body.hidden_size, body.rms_norm_eps)
        self.self_attn = Attention(body, has_key_value)
        self.post_attention_layernorm = nn.RMSNorm(body.hidden_size, body.rms_norm_eps)
        self.mlp = Mlp(body)

    def finish(self, rows: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """rows [..., hidden] that entered the layer and what attention gave for them
        [..., heads * head_dim] -> what leaves it [..., hidden]."""
        rows = rows + self.self_attn.o_proj(mixed)
        return rows + self.mlp(self.post_attention_layernorm(rows))

    def copy_from(self, layer: LayerWeights) -> None:
        """Start from a layer of the target; both have the same sizes, or the MLP here is narrower
        and takes the first units of the other."""
        attention, mlp = self.self_attn, self.mlp
        heads, kv_heads, head_dim = (
            attention.body.num_heads,
            attention.body.num_kv_heads,
            attention.body.head_dim,
        )
        sizes = [count * head_dim for count in (heads, kv_heads, kv_heads)]
        query, key, value = layer.qkv.to_dense().split(sizes)
        gate, up = layer.gate_up.to_dense().chunk(2)
        units = len(mlp.gate_proj.weight)
        copies = {
            self.input_layernorm: layer.attn_norm,
            attention.q_proj: query,
            attention.o_proj: layer.attn_out.to_dense(),
            self.post_attention_layernorm: layer.mlp_norm,
            mlp.gate_proj: gate[:units],
            mlp.up_proj: up[:units],
            mlp.down_proj: layer.down.to_dense()[:, :units],
        }
        if attention.has_key_value:
            copies |= {attention.k_proj: key, attention.v_proj: value}
        if layer.q_norm is not None and layer.k_norm is not None:
            copies[attention.q_norm] = layer.q_norm
            copies |= {attention.k_norm: layer.k_norm} if attention.has_key_value else {}
        with torch.no_grad():
            for module, weight in copies.items():
                cast(nn.Linear, module).weight.copy_(weight)
