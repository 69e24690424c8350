"""Reads a local Hugging Face folder: config.json and safetensors, one file or an indexed set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from kernels.runtime import InputError
from lessons.lib.config import ModelConfig, RopeScaling
from lessons.lib.model.weights import LM_HEAD, check_tensors

ARCHITECTURES = ("llama", "qwen3")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; InputError when it is absent or malformed."""
    if not path.exists():
        raise InputError(f"{path}: file not found")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object")
    return value


def read_config(folder: Path) -> ModelConfig:
    """config.json as a ModelConfig. Raises InputError for what the forward does not compute."""
    path = folder / "config.json"
    return model_config(read_json(path), path)


def model_config(raw: dict[str, Any], path: Path) -> ModelConfig:
    """As `read_config`, of what was read from `path`."""
    architecture = raw.get("model_type")
    if architecture not in ARCHITECTURES:
        raise InputError(
            f"{path}: model_type {architecture!r} is not supported; "
            f"known: {', '.join(ARCHITECTURES)}"
        )
    for key in ("attention_bias", "mlp_bias", "use_sliding_window"):
        if raw.get(key):
            raise InputError(f"{path}: {key} = true is not supported")
    try:
        heads = raw["num_attention_heads"]
        theta, scaling = _read_rope(raw, path)
        return ModelConfig(
            vocab_size=raw["vocab_size"],
            hidden_size=raw["hidden_size"],
            intermediate_size=raw["intermediate_size"],
            num_layers=raw["num_hidden_layers"],
            num_heads=heads,
            num_kv_heads=raw.get("num_key_value_heads") or heads,
            head_dim=raw.get("head_dim") or raw["hidden_size"] // heads,
            max_context=raw["max_position_embeddings"],
            rope_theta=theta,
            rms_norm_eps=raw["rms_norm_eps"],
            tie_word_embeddings=raw.get("tie_word_embeddings", False),
            has_qk_norm=architecture == "qwen3",
            rope_scaling=scaling,
        )
    except KeyError as error:
        raise InputError(f"{path}: key {error} is missing") from error


def _read_rope(raw: dict[str, Any], path: Path) -> tuple[float, RopeScaling | None]:
    """Base and scaling; `rope_parameters` is the newer spelling of `rope_scaling`."""
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    theta = rope.get("rope_theta") or raw.get("rope_theta") or 10000.0
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise InputError(f"{path}: rope_type {kind!r} is not supported; known: default, llama3")
    return theta, RopeScaling(
        factor=rope["factor"],
        low_freq_factor=rope["low_freq_factor"],
        high_freq_factor=rope["high_freq_factor"],
        original_max_position=rope["original_max_position_embeddings"],
    )


def read_tensors(
    folder: Path, config: ModelConfig, dtype: torch.dtype, device: torch.device
) -> dict[str, torch.Tensor]:
    """All tensors of the folder, shapes checked before the first byte of data is read."""
    locations: dict[str, Path] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for path in weight_files(folder):
        with open_safetensors(path) as file:
            for name in file.keys():  # noqa: SIM118 (not a dict)
                if name == LM_HEAD and config.tie_word_embeddings:
                    continue  # some exporters write the tied matrix twice
                locations[name] = path
                shapes[name] = tuple(file.get_slice(name).get_shape())
    _leave_out_mtp(shapes, config)
    locations = {name: path for name, path in locations.items() if name in shapes}
    check_tensors(shapes, config, str(folder))
    tensors: dict[str, torch.Tensor] = {}
    for path in sorted(set(locations.values())):
        with open_safetensors(path, str(device)) as file:
            for name, location in locations.items():
                if location == path:
                    tensors[name] = file.get_tensor(name).to(dtype)
    return tensors


def _leave_out_mtp(shapes: dict[str, tuple[int, ...]], config: ModelConfig) -> None:
    """Modules for multi-token prediction are no part of the target: `draft.checkpoints` reads them.
    DeepSeek counts its own as one layer more, which no other model has a projection in."""
    behind = f"model.layers.{config.num_layers}."
    prefixes = ["mtp.", "model.mtp_layers."]
    if f"{behind}eh_proj.weight" in shapes:
        prefixes.append(behind)
    for name in [name for name in shapes if name.startswith(tuple(prefixes))]:
        del shapes[name]


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder. Raises InputError when one is missing."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        single = folder / "model.safetensors"
        if not single.exists():
            raise InputError(f"{folder}: holds neither {single.name} nor {index.name}")
        return [single]
    files = sorted({folder / name for name in read_json(index).get("weight_map", {}).values()})
    for path in files:
        if not path.exists():
            raise InputError(f"{index}: lists {path.name}, which is not there")
    return files


def open_safetensors(path: Path, device: str = "cpu") -> Any:
    """An open file. Raises InputError when it is missing or damaged."""
    if not path.exists():
        raise InputError(f"{path}: file not found")
    try:
        return safe_open(path, framework="pt", device=device)
    except SafetensorError as error:
        raise InputError(f"{path}: not a readable safetensors file ({error})") from error
