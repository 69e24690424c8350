"""Converted models on disk: reading a GGUF takes seconds, mapping a safetensors file milliseconds.

One entry is a safetensors file (weights, with config and tokenizer as its text metadata) and,
beside it, its SHA-256. The key holds the hash of the source
file, so a changed source never meets an old entry. Entries are renamed into place whole; one whose
checksum is missing or wrong is rebuilt.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import platformdirs
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from kernels.runtime import InputError

CACHE_VARIABLE = "SPECDEC_CACHE"
_LAYOUT = 1  # raise when the meaning of what is stored changes

Converted = tuple[dict[str, torch.Tensor], dict[str, str]]  # tensors, text metadata


def cache_folder() -> Path:
    """Where entries live: $SPECDEC_CACHE, else the user's cache directory."""
    override = os.environ.get(CACHE_VARIABLE)
    return Path(override) if override else Path(platformdirs.user_cache_dir("specdec-course"))


def cached_model(source: Path, dtype: torch.dtype, convert: Callable[[], Converted]) -> Converted:
    """What `convert` makes of `source`, weights memory-mapped on the CPU; made only when needed."""
    dtype_name = str(dtype).removeprefix("torch.")
    name = f"{source.stem}-{sha256(source)[:16]}-{dtype_name}-v{_LAYOUT}.safetensors"
    entry = cache_folder() / name
    if not is_intact(entry):
        _store(entry, *convert())
    with safe_open(entry, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


def is_intact(entry: Path) -> bool:
    """True when the entry exists and matches its checksum."""
    checksum = _checksum_path(entry)
    if not (entry.exists() and checksum.exists()):
        return False
    return checksum.read_text().strip() == sha256(entry)


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum_path(entry: Path) -> Path:
    return entry.with_suffix(".sha256")


def _store(entry: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Write aside, then rename: a reader sees no entry or a whole one, never half of one."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=entry.parent) as scratch:
            weights, checksum = Path(scratch, "weights"), Path(scratch, "checksum")
            save_file(tensors, weights, metadata)
            checksum.write_text(sha256(weights))
            weights.replace(entry)
            checksum.replace(_checksum_path(entry))
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"cannot write the model cache {entry.parent} ({error}); "
            f"set {CACHE_VARIABLE} to a writable folder"
        ) from error
