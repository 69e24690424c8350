"""Reads a Llama GGUF: config, tensors under Hugging Face's names, and the tokenizer's metadata."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize

from kernels.runtime import InputError
from lessons.lib.config import ModelConfig
from lessons.lib.model.weights import EMBEDDING, FINAL_NORM, LM_HEAD, check_tensors

_TOP_NAMES = {
    "token_embd.weight": EMBEDDING,
    "output_norm.weight": FINAL_NORM,
    "output.weight": LM_HEAD,
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class GGUFFile:
    """An opened file; nothing is dequantised until `read_tensors`."""

    def __init__(self, path: Path) -> None:
        """Raises InputError when the file is no GGUF or not of the Llama architecture."""
        self.path = path
        try:
            self._reader = GGUFReader(path)
        except (ValueError, IndexError, KeyError) as error:
            raise InputError(f"{path}: not a readable GGUF file ({error})") from error
        architecture = self.metadata("general.architecture")
        if architecture != "llama":
            raise InputError(
                f"{path}: architecture {architecture!r} is not supported in GGUF form; "
                "give a Llama GGUF or a Hugging Face folder"
            )
        self.config = self._read_config()

    def metadata(self, key: str, default: Any = None) -> Any:
        """Value of a metadata key, or `default` when the file has no such key."""
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def require(self, key: str) -> Any:
        """Value of a metadata key; InputError when the file has no such key."""
        value = self.metadata(key)
        if value is None:
            raise InputError(f"{self.path}: metadata key {key} is missing")
        return value

    def _read_config(self) -> ModelConfig:
        hidden = self.require("llama.embedding_length")
        heads = self.require("llama.attention.head_count")
        return ModelConfig(
            vocab_size=len(self.require("tokenizer.ggml.tokens")),
            hidden_size=hidden,
            intermediate_size=self.require("llama.feed_forward_length"),
            num_layers=self.require("llama.block_count"),
            num_heads=heads,
            num_kv_heads=self.metadata("llama.attention.head_count_kv", heads),
            head_dim=self.metadata("llama.rope.dimension_count", hidden // heads),
            max_context=self.require("llama.context_length"),
            rope_theta=self.metadata("llama.rope.freq_base", 10000.0),
            rms_norm_eps=self.require("llama.attention.layer_norm_rms_epsilon"),
            tie_word_embeddings=all(t.name != "output.weight" for t in self._reader.tensors),
        )

    def read_tensors(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Dequantise everything, undo llama.cpp's row order, check shapes; tensors on the CPU."""
        named = {_hf_name(tensor.name): tensor for tensor in self._reader.tensors}
        # GGUF lists dimensions fastest first.
        shapes = {name: tuple(int(n) for n in t.shape[::-1]) for name, t in named.items()}
        check_tensors(shapes, self.config, str(self.path))
        tensors = {}
        for name, tensor in named.items():
            values = dequantize(tensor.data, tensor.tensor_type).reshape(shapes[name])
            if name.endswith("q_proj.weight"):
                values = unpermute(values, self.config.num_heads)
            elif name.endswith("k_proj.weight"):
                values = unpermute(values, self.config.num_kv_heads)
            tensors[name] = torch.tensor(values, dtype=dtype)
        return tensors


def unpermute(rows: np.ndarray, num_heads: int) -> np.ndarray:
    """Undo llama.cpp's order of query and key rows; [heads * head_dim, in] -> the same shape.

    Its RoPE turns neighbouring rows (0, 1), (2, 3), ...; ours turns row i with i + head_dim / 2.
    The converter interleaved the two halves of each head; here they are pulled apart again.
    """
    pairs = rows.reshape(num_heads, -1, 2, rows.shape[-1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _hf_name(name: str) -> str:
    """Hugging Face name of a GGUF tensor; unknown names pass through and fail the check."""
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
    if match and match[2] in _LAYER_NAMES:
        return f"model.layers.{match[1]}.{_LAYER_NAMES[match[2]]}.weight"
    return _TOP_NAMES.get(name, name)
