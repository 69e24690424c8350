"""The machine under a timing: whose turn it is, its caches, its clocks and load on record."""

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

REPO = Path(__file__).resolve().parents[1]
TURN = REPO / "build" / "cache" / "timing.lock"
CPU = Path("/sys/devices/system/cpu/cpu0")
MAX_FLUSH_BYTES = 256 << 20
# No machine of today reaches these; for a roofline that must never be too high.
MAX_BYTES_PER_S, MAX_FLOPS = 10e12, 5e15
GPU_QUERY = "name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu"


@contextlib.contextmanager
def turn(file: Path | None = None) -> Iterator[None]:
    """Wait for the machine: of several graders on it, only one times at a time."""
    file = file or TURN
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough if a fork holds it too


def roofline_ms(num_bytes: float, num_flops: float = 0.0) -> float:
    """Less time than this no machine takes to read so many bytes and do so many operations."""
    return max(num_bytes / MAX_BYTES_PER_S, num_flops / MAX_FLOPS) * 1e3


def flush_caches() -> None:
    """Write over twice the last-level cache of the CPU and, where there is one, of the card.

    Both are shared by all processes, so the grader can do it for its workers.
    """
    for buffer in _buffers():
        buffer.add_(1)
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@functools.cache
def _buffers() -> list[torch.Tensor]:
    sizes = [("cpu", min(2 * cpu_cache_bytes(), MAX_FLUSH_BYTES))]
    if torch.cuda.is_available():
        sizes.append(("cuda", 2 * torch.cuda.get_device_properties(0).L2_cache_size))
    return [torch.zeros(size, dtype=torch.uint8, device=device) for device, size in sizes]


def cpu_cache_bytes() -> int:
    """Size of the largest cache of the first core; a guess where the system does not say."""
    sizes = [_size(path) for path in CPU.glob("cache/index*/size")]
    return max(sizes, default=32 << 20)


def _size(path: Path) -> int:
    text = path.read_text().strip()
    return int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1:], 0)


def state() -> dict[str, Any]:
    """Clocks, load and temperature now, as far as the machine tells; plain data."""
    found: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "load": [round(value, 2) for value in os.getloadavg()],
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_mhz": _cpu_mhz(),
        "governor": _read(CPU / "cpufreq" / "scaling_governor"),
        "flushed_mib": [buffer.numel() >> 20 for buffer in _buffers()],
    }
    return found | ({"gpu": gpu} if (gpu := _gpu()) else {})


def _cpu_mhz() -> list[float]:
    lines = (_read(Path("/proc/cpuinfo")) or "").splitlines()
    return [round(float(line.split(":")[1])) for line in lines if line.startswith("cpu MHz")]


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _gpu() -> dict[str, str]:
    """What the driver says of the first card; nothing without one."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    command = [program, f"--query-gpu={GPU_QUERY}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values = done.stdout.partition("\n")[0].split(", ")
    return dict(zip(GPU_QUERY.split(","), values, strict=False)) if done.returncode == 0 else {}
