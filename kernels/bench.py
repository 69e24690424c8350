"""`python -m kernels.bench --json OUT`: every operation against its reference, torch's best way to
do the same, and the byte floor: the bytes that must move, at the bandwidth a plain copy reaches.

Contestants of a case take turns, so that a slow moment of the machine hits all of them. Times are
medians with the 10th and 90th percentile. Nothing is asserted about speed: these are ledger rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernels import runtime
from kernels.bench_cases import MODELS, cases


def main(arguments: list[str] | None = None) -> int:
    """Command line. Exit code 2 and one line for an input that cannot be served."""
    parser = argparse.ArgumentParser(prog="python -m kernels.bench", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the ledger here, else print a table")
    parser.add_argument("--device", default="auto", choices=runtime.DEVICES)
    parser.add_argument("--dtype", default="bfloat16", choices=sorted(runtime.DTYPES))
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args(arguments)
    try:
        if options.repeats < 1:
            raise runtime.InputError(f"--repeats is {options.repeats}; give 1 or more")
        device = runtime.resolve_device(options.device)
    except runtime.InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    ledger = measure(device, runtime.resolve_dtype(options.dtype), options.repeats)
    if options.json:
        options.json.write_text(json.dumps(ledger, indent=1) + "\n")
    else:
        _print_table(ledger)
    return 0


def measure(device: torch.device, dtype: torch.dtype, repeats: int) -> dict[str, Any]:
    """The ledger of all cases: machine, bandwidth, and a row for each contestant of each case."""
    torch.manual_seed(0)
    bandwidth = copy_bandwidth(device)
    rows = []
    for case in cases(MODELS[device.type], dtype, device):
        contestants = {"op": case.run, "reference": case.reference}
        if case.best:
            contestants["torch_best"] = case.best
        for name, times in _take_turns(contestants, device, repeats).items():
            rows.append(
                {
                    "op": case.op,
                    "shape": case.shape,
                    "contestant": name,
                    "floor_us": case.num_bytes / bandwidth * 1e6,
                    **_summary(times),
                }
            )
    return {
        "command": f"python -m kernels.bench --device {device.type} --repeats {repeats}",
        "machine": dataclasses.asdict(runtime.probe()),
        "device": device.type,
        "path": "triton" if device.type == "cuda" else "torch",
        "dtype": str(dtype).removeprefix("torch."),
        "model": MODELS[device.type]._asdict(),
        "copy_bandwidth_gb_s": bandwidth / 1e9,
        "rows": rows,
    }


def copy_bandwidth(device: torch.device) -> float:
    """Bytes a second (read and written) of copying a tensor that no cache holds."""
    source = torch.zeros((1 << 30 if device.type == "cuda" else 1 << 28) // 4, device=device)
    target = torch.empty_like(source)
    times = _take_turns({"copy": lambda: target.copy_(source)}, device, 10)["copy"]
    return 2 * source.numel() * 4 / (_summary(times)["median_us"] / 1e6)


def _take_turns(
    contestants: dict[str, Callable[[], object]], device: torch.device, repeats: int
) -> dict[str, list[float]]:
    """Microseconds of each run; two runs of each come first and do not count."""
    clock = _time_cuda if device.type == "cuda" else _time_cpu
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(-2, repeats):
        for name, run in contestants.items():
            elapsed = clock(run)
            if turn >= 0:
                times[name].append(elapsed)
    return times


def _time_cpu(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e6


def _time_cuda(run: Callable[[], object]) -> float:
    """Device time with a cold L2 cache: 256 MiB are overwritten before the first event."""
    torch.empty(1 << 26, device="cuda").zero_()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def _summary(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    last = len(ordered) - 1
    percentiles = {"p10_us": 0.1, "median_us": 0.5, "p90_us": 0.9}
    return {name: ordered[round(share * last)] for name, share in percentiles.items()} | {
        "repeats": len(times)
    }


def _print_table(ledger: dict[str, Any]) -> None:
    print(f"{ledger['device']} {ledger['dtype']}, copy {ledger['copy_bandwidth_gb_s']:.0f} GB/s")
    for row in ledger["rows"]:
        print(
            f"{row['op']:16}{row['shape']:44}{row['contestant']:12}"
            f"{row['median_us']:10.1f} us  [{row['p10_us']:.1f}, {row['p90_us']:.1f}]"
            f"  floor {row['floor_us']:.1f}"
        )


if __name__ == "__main__":
    sys.exit(main())
