"""A drafter's network on disk: safetensors, with its config as JSON in the header.

Names and shapes are compared before a weight is read: a drafter with a wrong tensor raises no error
later, it only guesses badly.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from kernels.runtime import InputError
from lessons.lib.config import ModelConfig, RopeScaling
from lessons.lib.model.hf_folder import open_safetensors
from lessons.lib.model.weight_cache import is_intact, sha256
from lessons.lib.model.weights import compare_tensors

CONFIG_KEY = "config"
FILE_NAME = "model.safetensors"  # in a folder


def save_net(net: nn.Module, config: Any, path: Path, dtype: torch.dtype) -> None:
    """Write the weights of `net` in `dtype` and its config, a dataclass; beside it a checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: t.detach().to("cpu", dtype if t.is_floating_point() else t.dtype).contiguous()
        for name, t in net.state_dict().items()
    }
    save_file(tensors, path, {CONFIG_KEY: json.dumps(asdict(config))})
    path.with_suffix(".sha256").write_text(sha256(path) + "\n")


def read_config(path: Path) -> dict[str, Any]:
    """The fields of the config of a file, `body` as a ModelConfig and lists as tuples.

    path: the file, or a folder that holds it as model.safetensors. Raises InputError for a file
    that is missing, damaged by its checksum, or no drafter of this course.
    """
    path = _file(path)
    if path.exists() and not is_intact(path):
        raise InputError(
            f"{path}: does not match its .sha256, or has none beside it; fetch it again"
        )
    with open_safetensors(path) as file:
        text = (file.metadata() or {}).get(CONFIG_KEY)
    if text is None:
        raise InputError(f"{path}: holds no {CONFIG_KEY!r} in its header; not saved by this course")
    fields = json.loads(text)
    scaling = fields["body"].pop("rope_scaling")
    body = ModelConfig(**fields.pop("body"), rope_scaling=scaling and RopeScaling(**scaling))
    return {"body": body} | {
        key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
    }


def load_weights(net: nn.Module, path: Path) -> None:
    """Fill `net`, keeping its dtype. Raises InputError naming the first tensor that differs."""
    path = _file(path)
    expected = {name: tuple(tensor.shape) for name, tensor in net.state_dict().items()}
    with open_safetensors(path) as file:
        names = list(file.keys())
        found = {name: tuple(file.get_slice(name).get_shape()) for name in names}
        compare_tensors(found, expected, str(path))
        net.load_state_dict({name: file.get_tensor(name) for name in names})


def _file(path: Path) -> Path:
    return path / FILE_NAME if path.is_dir() else path
