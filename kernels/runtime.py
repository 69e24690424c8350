"""What this machine can run, and which device and dtype a request ends up on."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

DEVICES = ("auto", "cpu", "cuda")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_OMP_PAUSE_SOFT = 1  # of OpenMP 5.0: settings stay
IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton reads it at import, so do we
HAS_TRITON = importlib.util.find_spec("triton") is not None  # there are no wheels outside Linux


class InputError(ValueError):
    """The user asked for something that cannot be had; the message says what to do.

    Command lines print it as one line and exit with 2; everything else is a bug of ours.
    """


@dataclass(frozen=True)
class Capabilities:
    """One machine as the engine sees it. Versions are None where the package is absent."""

    python: str
    torch: str
    triton: str | None
    cpu: str
    num_threads: int
    gpu: str | None
    has_bfloat16: bool  # fast bfloat16, not merely emulated
    can_compile_triton: bool  # a kernel can be launched, not merely interpreted


def resolve_device(name: str = "auto") -> torch.device:
    """`auto` takes CUDA when there is one. Raises InputError for an unknown or absent device."""
    if name not in DEVICES:
        raise InputError(f"unknown device {name!r}; choose one of {', '.join(DEVICES)}")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' asked for but torch sees no CUDA device; use --device cpu")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def resolve_dtype(name: str) -> torch.dtype:
    """Raises InputError for anything but the dtypes the engine is tested in."""
    if name not in DTYPES:
        raise InputError(f"unknown dtype {name!r}; choose one of {', '.join(DTYPES)}")
    return DTYPES[name]


def uses_triton(tensor: torch.Tensor) -> bool:
    """The dispatch rule of every operation: a Triton kernel on a card or under the interpreter,
    torch everywhere else."""
    return HAS_TRITON and (tensor.is_cuda or IS_INTERPRETED)


def synchronize(device: torch.device) -> None:
    """Wait for queued work, so that a clock read next to it means something."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def release_threads() -> None:
    """Let OpenMP's workers of the calling thread go; its next product starts new ones.

    Every thread that computes has workers of its own, asleep or not. Once they are more than the
    cores, libgomp lets none of them spin, and every product waits for one to wake. So call this
    before another thread takes over. Does nothing where there is no such OpenMP library.
    """
    library = ctypes.CDLL(None) if os.name == "posix" else None
    pause = getattr(library, "omp_pause_resource_all", None)
    if pause is not None:
        pause(_OMP_PAUSE_SOFT)


def probe() -> Capabilities:
    """Look at the machine. Starts nothing and never fails for a missing part."""
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    triton = _version("triton")
    return Capabilities(
        python=sys.version.split()[0],
        torch=torch.__version__,
        triton=triton,
        cpu=_cpu_name(),
        num_threads=torch.get_num_threads(),
        gpu=gpu,
        has_bfloat16=torch.cuda.is_bf16_supported() if gpu else _cpu_has_bfloat16(),
        can_compile_triton=gpu is not None and HAS_TRITON,
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_flags() -> dict[str, str]:
    """First processor of /proc/cpuinfo; empty where there is no such file."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text().split("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _cpu_name() -> str:
    return _cpu_flags().get("model name") or platform.processor() or platform.machine()


def _cpu_has_bfloat16() -> bool:
    flags = _cpu_flags()
    words = (flags.get("flags") or flags.get("Features") or "").split()
    return any(word in words for word in ("avx512_bf16", "amx_bf16", "bf16"))
