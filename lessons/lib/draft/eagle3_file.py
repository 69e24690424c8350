"""An EAGLE-3 drafter in a folder: this course ships its own in the authors' layout, with a checksum
beside it, and takes those of others."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from kernels.runtime import InputError
from lessons.lib.config import ModelConfig
from lessons.lib.draft.checkpoints import load_as
from lessons.lib.draft.eagle3_net import Eagle3Net
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.weight_cache import is_intact, sha256

WEIGHTS = Path(__file__).parents[1] / "weights"
SHIPPED = WEIGHTS / "eagle3-smollm2-135m"
HOW_TO_TRAIN = (
    "train one with `python -m lessons.lib.train eagle3` and then "
    "`python -m lessons.lib.train export eagle3`"
)
_FILE = "model.safetensors"
_SIZES = {  # ModelConfig -> config.json
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "max_context": "max_position_embeddings",
    "rope_theta": "rope_theta",
    "rms_norm_eps": "rms_norm_eps",
}


def save_eagle3(net: Eagle3Net, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write model.safetensors with its SHA-256 beside it, and config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor if name == "d2t" else tensor.to(dtype)
        for name, tensor in net.to_tensors().items()
    }
    save_file(tensors, folder / _FILE)
    (folder / _FILE).with_suffix(".sha256").write_text(sha256(folder / _FILE) + "\n")
    config = {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}
    config |= _sizes(net.config.body)
    config["draft_vocab_size"] = net.config.draft_vocab_size
    config["eagle_aux_hidden_state_layer_ids"] = list(net.config.feature_layers)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def load_eagle3(folder: Path, model: LlamaModel) -> Eagle3Net:
    """The drafter of a folder, for this target, in its dtype and on its device: one that
    `save_eagle3` wrote, or one that others published.

    What has a checksum beside it must match it; what this course ships must have one. Raises
    InputError when files are missing, damaged, or made for another target.
    """
    if not folder.exists():
        raise InputError(f"no EAGLE-3 drafter in {folder}; {HOW_TO_TRAIN}")
    path = folder / _FILE
    is_summed = folder == SHIPPED or path.with_suffix(".sha256").exists()
    if is_summed and not is_intact(path):
        raise InputError(f"{path}: missing or does not match its .sha256; fetch it again")
    return load_as(Eagle3Net, folder, model)


def _sizes(body: ModelConfig) -> dict[str, Any]:
    sizes: dict[str, Any] = {key: getattr(body, name) for name, key in _SIZES.items()}
    sizes["model_type"] = "qwen3" if body.has_qk_norm else "llama"
    if body.rope_scaling is not None:
        scaling = asdict(body.rope_scaling)
        scaling["original_max_position_embeddings"] = scaling.pop("original_max_position")
        sizes["rope_scaling"] = {"rope_type": "llama3"} | scaling
    return sizes
