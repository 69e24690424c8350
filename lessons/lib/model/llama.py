"""The target model: a decoder of the Llama family (Llama, Qwen3) over a paged KV pool.

One forward serves prefill, decode and verification of a whole batch: a prompt chunk is a chain, a
decode step a tree of one node.
Weights are held fused (q, k, v in one matrix; gate and up in one) because a small product is paid
by the call, and packed where the device has a layout that is read faster (`kernels.linear`, which
tells where the time of a step goes).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F

from kernels.kv_pool import KVPool, RollbackPolicy
from kernels.linear import linear, pack
from kernels.rms_norm import add_rms_norm, rms_norm
from kernels.tree_attention import plan_for, tree_attention
from kernels.tree_layout import TreeLayout
from lessons.lib.config import ModelConfig, RopeScaling
from lessons.lib.model.batch import ForwardBatch
from lessons.lib.model.features import FeatureCapture

# (query [rows, heads, head_dim], k_cache and v_cache of the layer) -> as query
Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one decoder layer, [out, in], the matrices as `pack` lays them out; the two head
    norms exist in Qwen3 only."""

    attn_norm: torch.Tensor  # [hidden]
    qkv: torch.Tensor  # [(heads + 2 kv_heads) * head_dim, hidden]
    attn_out: torch.Tensor  # [hidden, heads * head_dim]
    mlp_norm: torch.Tensor  # [hidden]
    gate_up: torch.Tensor  # [2 * intermediate, hidden]
    down: torch.Tensor  # [hidden, intermediate]
    q_norm: torch.Tensor | None = None  # [head_dim]
    k_norm: torch.Tensor | None = None  # [head_dim]


class LlamaModel:
    """Weights and forward pass; holds no state of any request (that is the KVPool's)."""

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
        self.packed_head = pack(lm_head)  # training reads the plain one
        self._cos, self._sin = rope_tables(config, embedding.dtype, embedding.device)

    def share_head(self, other: LlamaModel) -> None:
        """Score with the other's head, which stays in memory once."""
        self.lm_head, self.packed_head = other.lm_head, other.packed_head

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of weights, activations, keys and values."""
        return self.embedding.dtype

    def new_pool(
        self,
        num_tokens: int,
        page_size: int = 16,
        policy: RollbackPolicy = RollbackPolicy.RETURN_PAGES,
    ) -> KVPool:
        """An empty KV pool of this model's shape for at least `num_tokens` tokens."""
        config, num_pages = self.config, -(-num_tokens // page_size)
        return KVPool(
            config.num_layers,
            num_pages,
            config.num_kv_heads,
            config.head_dim,
            page_size,
            self.dtype,
            self.device,
            policy,
        )

    @torch.inference_mode()
    def forward(
        self, batch: ForwardBatch, pool: KVPool, capture: FeatureCapture | None = None
    ) -> torch.Tensor:
        """Score what may follow each row of the batch and write the rows' KV to their slots.

        Returns logits [n, vocab] in the model's dtype, for the n rows of `batch.logit_rows`;
        `capture` keeps the hidden states it asks for, of all rows.
        """
        cos, sin = self._cos[batch.positions, None], self._sin[batch.positions, None]
        attend = self.attention(batch.layout, pool)
        hidden, eps = F.embedding(batch.token_ids, self.embedding), self.config.rms_norm_eps
        # The norm behind each sum is one operation with it, so it belongs to the next block.
        norms = [layer.attn_norm for layer in self.layers[1:]] + [self.final_norm]
        normed = rms_norm(hidden, self.layers[0].attn_norm, eps)
        for index, (layer, next_norm) in enumerate(zip(self.layers, norms, strict=True)):
            if capture is not None:
                capture.keep(index, hidden)
            query, key, value = self._project(normed, layer, cos, sin)
            pool.write_kv(index, batch.slot_mapping, key, value)
            mixed = linear(attend(query, pool.k[index], pool.v[index]).flatten(1), layer.attn_out)
            normed, hidden = add_rms_norm(mixed, hidden, layer.mlp_norm, eps)
            normed, hidden = add_rms_norm(self._mlp(normed, layer), hidden, next_norm, eps)
        if capture is not None:
            capture.keep(len(self.layers), hidden)
        if batch.logit_rows is not None:
            normed = normed[batch.logit_rows]
        return linear(normed, self.packed_head)

    def attention(self, layout: TreeLayout, pool: KVPool) -> Attend:
        """The attention of one forward: what depends on the layout alone is worked out here."""
        plan = plan_for(self.dtype, pool.k[0], layout, self.config.group_size)
        return partial(tree_attention, layout=layout, scale=self.config.head_dim**-0.5, plan=plan)

    @torch.no_grad()
    def key_value(
        self, index: int, hidden: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What layer `index` keeps in the pool of rows that enter it, hidden [n, hidden] at
        positions [n] int64 -> key, value [n, kv_heads, head_dim]."""
        turn, layer = (self._cos[positions, None], self._sin[positions, None]), self.layers[index]
        normed = rms_norm(hidden.contiguous(), layer.attn_norm, self.config.rms_norm_eps)
        return self._project(normed, layer, *turn)[1:]

    def _project(
        self, normed: torch.Tensor, layer: LayerWeights, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """normed [rows, hidden] -> query, key, value [rows, (kv_)heads, head_dim], turned."""
        config = self.config
        heads, kv_heads = config.num_heads, config.num_kv_heads
        qkv = linear(normed, layer.qkv).view(-1, heads + 2 * kv_heads, config.head_dim)
        query_key, value = qkv.split([heads + kv_heads, kv_heads], dim=1)
        if layer.q_norm is not None and layer.k_norm is not None:
            query, key = query_key.split([heads, kv_heads], dim=1)
            parts = (query, layer.q_norm), (key, layer.k_norm)
            eps = config.rms_norm_eps
            query_key = torch.cat([F.rms_norm(x, w.shape, w, eps) for x, w in parts], dim=1)
        query, key = rotate(query_key, cos, sin).split([heads, kv_heads], dim=1)
        return query.contiguous(), key, value

    def _mlp(self, normed: torch.Tensor, layer: LayerWeights) -> torch.Tensor:
        gate, up = linear(normed, layer.gate_up).chunk(2, dim=-1)
        return linear(F.silu(gate) * up, layer.down)


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """RoPE on [rows, heads, head_dim]; cos and sin [rows, 1, head_dim].

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
