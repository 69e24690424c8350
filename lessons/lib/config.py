"""The two kinds of settings: what the target model is, and how a request wants its tokens drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernels.runtime import InputError


@dataclass(frozen=True)
class RopeScaling:
    """Llama 3.1's stretching of the low RoPE frequencies (`rope_type: llama3`)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a dense decoder of the Llama family; sizes are counts, not bytes."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_context: int
    rope_theta: float
    rms_norm_eps: float
    tie_word_embeddings: bool
    has_qk_norm: bool = False  # Qwen3 normalises every query and key head
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise InputError(
                f"model config: {self.num_heads} heads do not divide into "
                f"{self.num_kv_heads} KV heads"
            )

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head."""
        return self.num_heads // self.num_kv_heads

    def kv_bytes_per_token(self, element_bytes: int) -> int:
        """Bytes of keys and values that one token occupies over all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * element_bytes


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are drawn. Temperature 0 is greedy; top_k 0 and top_p 1 switch the filters off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise InputError(f"temperature must be 0 or more, got {self.temperature}")
        if self.top_k < 0:
            raise InputError(f"top_k must be 0 (off) or more, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed must be between 0 and 2**63 - 1, got {self.seed}")

    @property
    def is_greedy(self) -> bool:
        """True when every token is the argmax and no random number is used."""
        return self.temperature == 0
