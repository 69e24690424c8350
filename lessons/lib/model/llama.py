"""The target model: a decoder of the Llama family (Llama, Qwen3) with a KV cache.

One forward serves prefill, decode and verification; they differ only in how many tokens come in.
Weights are held fused (q, k, v in one matrix; gate and up in one) because at batch 1 a step is
bounded by the number of operators, not by arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from lessons.lib.config import ModelConfig, RopeScaling


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one decoder layer, [out, in]; the two head norms exist in Qwen3 only."""

    attn_norm: torch.Tensor  # [hidden]
    qkv: torch.Tensor  # [(heads + 2 kv_heads) * head_dim, hidden]
    attn_out: torch.Tensor  # [hidden, heads * head_dim]
    mlp_norm: torch.Tensor  # [hidden]
    gate_up: torch.Tensor  # [2 * intermediate, hidden]
    down: torch.Tensor  # [hidden, intermediate]
    q_norm: torch.Tensor | None = None  # [head_dim]
    k_norm: torch.Tensor | None = None  # [head_dim]


class KVCache:
    """Keys and values of one batch whose sequences all have the same length.

    Per layer one tensor [batch, kv_heads, max_len, head_dim]. Entries at and past `length` are
    garbage that the next forward overwrites, so dropping rejected tokens is one assignment.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        max_len: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (batch, config.num_kv_heads, max_len, config.head_dim)
        layers = range(config.num_layers)
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in layers]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for _ in layers]
        self.max_len = max_len
        self.length = 0

    def truncate(self, length: int) -> None:
        """Forget everything from `length` on."""
        assert 0 <= length <= self.length, (length, self.length)
        self.length = length


class LlamaModel:
    """Weights and forward pass; holds no state of any request (that is the KVCache's)."""

    def __init__(
        self,
        config: ModelConfig,
        embedding: torch.Tensor,
        layers: list[LayerWeights],
        final_norm: torch.Tensor,
        lm_head: torch.Tensor,
    ) -> None:
        """embedding and lm_head [vocab, hidden] (one tensor where tied), final_norm [hidden]."""
        self.config = config
        self.embedding = embedding
        self.layers = layers
        self.final_norm = final_norm
        self.lm_head = lm_head
        self._cos, self._sin = rope_tables(config, embedding.dtype, embedding.device)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of weights, activations, keys and values."""
        return self.embedding.dtype

    def new_cache(self, batch: int, max_len: int) -> KVCache:
        """An empty cache for `batch` sequences of at most `max_len` tokens."""
        return KVCache(self.config, batch, max_len, self.dtype, self.device)

    @torch.inference_mode()
    def forward(
        self, token_ids: torch.Tensor, cache: KVCache, num_logits: int | None = None
    ) -> torch.Tensor:
        """Append tokens to the cache and score what may follow each of them.

        token_ids [batch, q] int64 -> logits [batch, n, vocab] in the model's dtype, for the last
        n = num_logits of the q tokens (default: all). `cache.length` grows by q.
        """
        num_new = token_ids.shape[1]
        end = cache.length + num_new
        assert end <= cache.max_len, f"cache of {cache.max_len} tokens cannot hold {end}"
        cos, sin = self._cos[cache.length : end, None], self._sin[cache.length : end, None]
        mask = causal_mask(num_new, end, self.config.group_size, self.dtype, self.device)
        hidden = F.embedding(token_ids, self.embedding)
        for index, layer in enumerate(self.layers):
            hidden = hidden + self._attention(hidden, index, layer, cache, cos, sin, mask)
            hidden = hidden + self._mlp(hidden, layer)
        cache.length = end
        if num_logits is not None:
            hidden = hidden[:, -num_logits:]
        return F.linear(self._norm(hidden, self.final_norm), self.lm_head)

    def _attention(
        self,
        hidden: torch.Tensor,
        index: int,
        layer: LayerWeights,
        cache: KVCache,
        cos: torch.Tensor,
        sin: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """hidden [batch, q, hidden] -> [batch, q, hidden]; writes this layer's keys and values."""
        config, (batch, num_new, _) = self.config, hidden.shape
        heads, kv_heads = config.num_heads, config.num_kv_heads
        qkv = F.linear(self._norm(hidden, layer.attn_norm), layer.qkv)
        qkv = qkv.view(batch, num_new, heads + 2 * kv_heads, config.head_dim)
        query_key = qkv[:, :, : heads + kv_heads]
        if layer.q_norm is not None and layer.k_norm is not None:
            query, key = query_key.split([heads, kv_heads], dim=2)
            query_key = torch.cat(
                (self._norm(query, layer.q_norm), self._norm(key, layer.k_norm)), dim=2
            )
        query_key = rotate(query_key, cos, sin)
        start, end = cache.length, cache.length + num_new
        cache.keys[index][:, :, start:end] = query_key[:, :, heads:].transpose(1, 2)
        cache.values[index][:, :, start:end] = qkv[:, :, heads + kv_heads :].transpose(1, 2)
        # Heads that share a KV head become further queries of it: one plain attention, no copies
        # of keys. (torch's own grouped path is five times slower for one bfloat16 query on a CPU.)
        grouped = query_key[:, :, :heads].unflatten(2, (kv_heads, config.group_size))
        mixed = F.scaled_dot_product_attention(
            grouped.permute(0, 2, 3, 1, 4).flatten(2, 3),
            cache.keys[index][:, :, :end],
            cache.values[index][:, :, :end],
            attn_mask=mask,
        )
        mixed = mixed.unflatten(2, (config.group_size, num_new)).permute(0, 3, 1, 2, 4)
        return F.linear(mixed.flatten(2), layer.attn_out)

    def _mlp(self, hidden: torch.Tensor, layer: LayerWeights) -> torch.Tensor:
        gate_up = F.linear(self._norm(hidden, layer.mlp_norm), layer.gate_up)
        gate, up = gate_up.chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, layer.down)

    def _norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden, weight.shape, weight, self.config.rms_norm_eps)


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """RoPE on [batch, q, heads, head_dim]; cos and sin [q, 1, head_dim].

    Dimension i turns with i + head_dim / 2 (the Hugging Face order, not llama.cpp's interleaved
    one). `sin` carries the minus sign of the first half, so a roll replaces negate-and-concatenate.
    """
    return torch.addcmul(heads * cos, heads.roll(heads.shape[-1] // 2, -1), sin)


def rope_tables(
    config: ModelConfig, dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and signed sin [max_context, head_dim], computed in float32 and rounded once."""
    exponents = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
    frequencies = config.rope_theta**-exponents
    if config.rope_scaling is not None:
        frequencies = _scale_frequencies(frequencies, config.rope_scaling)
    positions = torch.arange(config.max_context, device=device).float()
    angles = torch.outer(positions, frequencies)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((cos, cos), -1).to(dtype), torch.cat((-sin, sin), -1).to(dtype)


def _scale_frequencies(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Llama 3.1: divide slow frequencies by `factor`, keep fast ones, blend in between."""
    turns = scaling.original_max_position * frequencies / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    keep = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return frequencies * (keep + (1 - keep) / scaling.factor)


def causal_mask(
    num_new: int, length: int, group_size: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor | None:
    """Additive mask [group_size * num_new, length]: new token i sees all but new tokens after it.

    The rows repeat for every query head of a group. None for a single token, which sees everything.
    """
    if num_new == 1:
        return None
    mask = torch.full((num_new, length), -torch.inf, dtype=dtype, device=device)
    return mask.triu_(length - num_new + 1).repeat(group_size, 1)
