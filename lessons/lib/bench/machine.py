"""Where a measurement was made: the machine with its clocks, the versions, the commit."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from kernels.runtime import probe

_PACKAGES = ("torch", "triton", "numpy", "gguf", "safetensors", "tokenizers", "transformers")
_SMI_TIMEOUT_S = 10.0  # with a driver that hangs, nvidia-smi never comes back
_OPENMP = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
_GPU_QUERY = {"driver": "driver_version", "gpu_mhz": "clocks.sm", "gpu_max_mhz": "clocks.max.sm"}

Json = dict[str, Any]


def machine(device: str) -> Json:
    """Processor, card, threads, load and clocks now; clocks cannot be locked, so they are noted."""
    capabilities = probe()
    row: Json = {
        "device": device,
        "cpu": capabilities.cpu,
        "gpu": capabilities.gpu,
        "num_threads": capabilities.num_threads,
        "num_cpus": os.cpu_count(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        **_cpu_clocks(),
        **_gpu_state(),
    }
    reasons = {
        "gpu": "no CUDA device",
        "load_average": "not reported by this system",
        **dict.fromkeys(("cpu_mhz", "cpu_max_mhz"), "not reported by this system"),
        **dict.fromkeys(_GPU_QUERY, "no nvidia-smi, or it found no card or hung"),
    }
    return row | {"missing": {key: why for key, why in reasons.items() if row[key] is None}}


def _cpu_clocks() -> Json:
    """Mean over cores now, and the most they reach; a virtual machine may tell neither."""
    try:
        found = psutil.cpu_freq()
    except (OSError, NotImplementedError, RuntimeError):
        found = None
    return {
        "cpu_mhz": found.current if found and found.current else None,
        "cpu_max_mhz": found.max if found and found.max else None,
    }


def _gpu_state() -> Json:
    """Driver and clocks of the first card, as nvidia-smi reports them."""
    unknown: Json = dict.fromkeys(_GPU_QUERY)
    if shutil.which("nvidia-smi") is None:
        return unknown
    fields = ",".join(_GPU_QUERY.values())
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SMI_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return unknown
    values = done.stdout.strip().splitlines()[0].split(", ") if done.stdout.strip() else []
    if done.returncode or len(values) != len(_GPU_QUERY):
        return unknown
    driver, *clocks = values
    numbers = [float(clock) if clock.replace(".", "").isdigit() else None for clock in clocks]
    return dict(zip(_GPU_QUERY, [driver, *numbers], strict=True))


def openmp_settings() -> Json:
    """How OpenMP's workers were told to wait; null is the library's default."""
    return {name: os.environ.get(name) for name in _OPENMP}


def versions() -> Json:
    """Python and the packages that a speed depends on."""
    found: Json = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    absent = {name: "not installed" for name, version in found.items() if version is None}
    return found | {"missing": absent}


def git_commit() -> tuple[str | None, str | None]:
    """(commit, None), with "-dirty" when tracked files differ from it, or (None, reason)."""
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        return None, "git is not installed"
    except subprocess.CalledProcessError as error:
        return None, error.stderr.strip() or "git describe failed"
    return done.stdout.strip(), None
