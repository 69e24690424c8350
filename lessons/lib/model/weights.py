"""Named tensors of a checkpoint: which must be there, in which shape, and how they are fused.

Every reader delivers Hugging Face's names and orientation; this file alone knows them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kernels.linear import pack
from kernels.runtime import InputError
from lessons.lib.config import ModelConfig
from lessons.lib.model.llama import LayerWeights, LlamaModel

EMBEDDING, FINAL_NORM, LM_HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor the checkpoint must hold."""
    hidden, vocab = config.hidden_size, config.vocab_size
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (vocab, hidden), FINAL_NORM: (hidden,)}
    if not config.tie_word_embeddings:
        shapes[LM_HEAD] = (vocab, hidden)
    for index in range(config.num_layers):
        for name, shape in _layer_shapes(config).items():
            shapes[f"model.layers.{index}.{name}.weight"] = shape
    return shapes


def _layer_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    hidden, inner, head_dim = config.hidden_size, config.intermediate_size, config.head_dim
    query, key = config.num_heads * head_dim, config.num_kv_heads * head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (query, hidden),
        "self_attn.k_proj": (key, hidden),
        "self_attn.v_proj": (key, hidden),
        "self_attn.o_proj": (hidden, query),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    if config.has_qk_norm:
        shapes |= {"self_attn.q_norm": (head_dim,), "self_attn.k_norm": (head_dim,)}
    return shapes


def check_tensors(found: Mapping[str, tuple[int, ...]], config: ModelConfig, source: str) -> None:
    """Compare names and shapes with the config. Raises InputError naming the first difference."""
    compare_tensors(found, expected_shapes(config), source)


def compare_tensors(
    found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]], source: str
) -> None:
    """Raises InputError naming the first tensor that is missing, unknown or of another shape."""
    missing = [name for name in expected if name not in found]
    unknown = [name for name in found if name not in expected]
    if missing:
        raise InputError(f"{source}: tensor {missing[0]} is missing{_and_more(missing)}")
    if unknown:
        raise InputError(
            f"{source}: tensor {unknown[0]} is not part of this architecture{_and_more(unknown)}"
        )
    for name, shape in expected.items():
        if tuple(found[name]) != shape:
            raise InputError(
                f"{source}: tensor {name} has shape {list(found[name])}, "
                f"the config expects {list(shape)}"
            )


def _and_more(names: list[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


def build_model(config: ModelConfig, tensors: Mapping[str, torch.Tensor]) -> LlamaModel:
    """Fuse checked tensors into a model. All must share dtype and device."""
    return LlamaModel(
        config,
        embedding=tensors[EMBEDDING],
        layers=[_build_layer(config, tensors, index) for index in range(config.num_layers)],
        final_norm=tensors[FINAL_NORM],
        lm_head=tensors[EMBEDDING if config.tie_word_embeddings else LM_HEAD],
    )


def _build_layer(
    config: ModelConfig, tensors: Mapping[str, torch.Tensor], index: int
) -> LayerWeights:
    def get(name: str) -> torch.Tensor:
        return tensors[f"model.layers.{index}.{name}.weight"]

    return LayerWeights(
        attn_norm=get("input_layernorm"),
        qkv=pack(torch.cat([get(f"self_attn.{part}_proj") for part in "qkv"])),
        attn_out=pack(get("self_attn.o_proj")),
        mlp_norm=get("post_attention_layernorm"),
        gate_up=pack(torch.cat((get("mlp.gate_proj"), get("mlp.up_proj")))),
        down=pack(get("mlp.down_proj")),
        q_norm=get("self_attn.q_norm") if config.has_qk_norm else None,
        k_norm=get("self_attn.k_norm") if config.has_qk_norm else None,
    )
