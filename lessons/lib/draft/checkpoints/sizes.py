"""Sizes of a draft layer and numbers of target layers, from the config of a published drafter.

Three ways to number the target's layers are in use. All are turned into that of `model.features`,
where id i is what ENTERS layer i:

  SafeAILab EAGLE-3    i: what enters layer i       eagle/model/modeling_llama_kv.py at cb7e084
  speculators, vLLM    i: what enters layer i       convert/dflash/converter.py at v0.7.0, where
                                                    "z-lab id + 1" becomes the speculators id
  z-lab, DeepSpec      i: what LEAVES layer i       dflash/model.py at 44947fb reads
                                                    hidden_states[i + 1]; DeepSpec allows -1 for the
                                                    embedding (modeling/dspark/common.py at afdfa7c)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lessons.lib.config import ModelConfig
from lessons.lib.draft.checkpoints.folder import Checkpoint
from lessons.lib.model.hf_folder import model_config

# Fields that a config may leave out: speculators v0.7.0 writes the difference from the defaults of
# transformers' LlamaConfig or Qwen3Config.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
    },
    "qwen3": {
        "vocab_size": 151936,
        "hidden_size": 4096,
        "intermediate_size": 22016,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "head_dim": 128,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
    },
}
# What no draft network here computes; the value is harmless.
_UNSUPPORTED = {
    "hidden_act": "silu",
    "is_neox_style": True,
    "is_causal": False,
    "causal": False,
    "use_swa": False,
    "attention_sink_bias": False,
    "add_swa_attention_sink_bias": False,
    "pure_draft_prefix_len": 0,
    "logit_scale": 1.0,
}


def read_sizes(checkpoint: Checkpoint, raw: dict[str, Any], target: ModelConfig) -> ModelConfig:
    """The draft layers as a ModelConfig, `raw` being the part of the config that describes them.

    The context is the target's: rope goes on beyond what the drafter was trained on. Raises
    InputError for a setting that changes the arithmetic in a way no network here follows.
    """
    for key, harmless in _UNSUPPORTED.items():
        if raw.get(key, harmless) not in (harmless, None):
            raise checkpoint.fail(f"{key} = {raw[key]!r} is not supported")
    sliding = [kind for kind in raw.get("layer_types") or [] if kind != "full_attention"]
    if sliding:
        raise checkpoint.fail(f"layer_types has {sliding[0]!r}; only full_attention is supported")
    given = {key: value for key, value in raw.items() if value is not None}
    defaults = _DEFAULTS.get(raw.get("model_type", ""), {})
    body = model_config(defaults | given, checkpoint.folder / "config.json")
    return replace(body, max_context=target.max_context)


def from_outputs(
    checkpoint: Checkpoint, layer_ids: Sequence[int], num_layers: int
) -> tuple[int, ...]:
    """Ids of layers that something LEAVES, as ids of the layers that it enters."""
    if num_layers - 1 in layer_ids:
        # transformers applies the final norm to that one state, so it is not what leaves the layer.
        raise checkpoint.fail(f"target_layer_ids has the target's last layer {num_layers - 1}")
    return tuple(layer + 1 for layer in layer_ids)


def check_num_layers(checkpoint: Checkpoint, expected: int | None, target: ModelConfig) -> None:
    """Raise InputError for a drafter of a deeper or shallower target."""
    if expected not in (None, target.num_layers):
        raise checkpoint.fail(
            f"made for a target of {expected} layers, this one has {target.num_layers}"
        )
