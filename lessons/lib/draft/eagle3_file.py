"""An EAGLE-3 drafter on disk, in the layout of the authors' checkpoints, with a checksum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from kernels.runtime import InputError
from lessons.lib.config import ModelConfig
from lessons.lib.draft.eagle3_net import Eagle3Config, Eagle3Net
from lessons.lib.model.hf_folder import read_json
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.weight_cache import is_intact, sha256

WEIGHTS = Path(__file__).parents[1] / "weights"
SHIPPED = WEIGHTS / "eagle3-smollm2-135m"
HOW_TO_TRAIN = (
    "train one with `python -m lessons.lib.train eagle3` and `python -m lessons.lib.train export`"
)
_FILE = "model.safetensors"
_KEYS = {  # config.json -> ModelConfig
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "head_dim": "head_dim",
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
    config |= {key: getattr(net.config.target, name) for key, name in _KEYS.items()}
    config["draft_vocab_size"] = net.config.draft_vocab_size
    config["eagle_aux_hidden_state_layer_ids"] = list(net.config.feature_layers)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def load_eagle3(folder: Path, model: LlamaModel) -> Eagle3Net:
    """The drafter of a folder, for this target, in its dtype and on its device.

    Raises InputError when files are missing, damaged, or made for another target.
    """
    if not folder.exists():
        raise InputError(f"no EAGLE-3 drafter in {folder}; {HOW_TO_TRAIN}")
    raw = read_json(folder / "config.json")
    _check_target(raw, model.config, folder)
    layers = tuple(_require(raw, "eagle_aux_hidden_state_layer_ids", folder))
    config = Eagle3Config(model.config, _require(raw, "draft_vocab_size", folder), layers)
    path = folder / _FILE
    if not is_intact(path):
        raise InputError(f"{path}: missing or does not match its .sha256; fetch it again")
    net = Eagle3Net(config)
    try:
        net.load_tensors(load_file(path), str(path))
    except SafetensorError as error:
        raise InputError(f"{path}: not a readable safetensors file ({error})") from error
    return net.to(model.device, model.dtype).requires_grad_(False)


def _check_target(raw: dict[str, Any], target: ModelConfig, folder: Path) -> None:
    for key, name in _KEYS.items():
        found, wanted = _require(raw, key, folder), getattr(target, name)
        if found != wanted:
            raise InputError(
                f"{folder}: made for a target with {key} {found}, this one has {wanted}; "
                f"{HOW_TO_TRAIN}"
            )


def _require(raw: dict[str, Any], key: str, folder: Path) -> Any:
    if key not in raw:
        raise InputError(f"{folder / 'config.json'}: {key} is missing")
    return raw[key]
