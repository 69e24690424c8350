"""What a ledger says of the machine: clocks and driver where they are told, null and why if not."""

import os
import subprocess
from types import SimpleNamespace

import pytest

from lessons.lib.bench import machine


def smi(monkeypatch, text, code=0):
    """nvidia-smi answers with `text`; None: there is none."""
    monkeypatch.setattr(machine.shutil, "which", lambda _: None if text is None else "nvidia-smi")
    asked = []

    def run(command, **_):
        asked.append(command)
        return subprocess.CompletedProcess(command, code, text, "")

    monkeypatch.setattr(machine.subprocess, "run", run)
    return asked


def test_driver_and_clocks_of_the_card(monkeypatch):
    asked = smi(monkeypatch, "570.86.15, 1755, 1980\n570.86.15, 345, 1980\n")
    row = machine.machine("cuda")
    assert (row["driver"], row["gpu_mhz"], row["gpu_max_mhz"]) == ("570.86.15", 1755.0, 1980.0)
    assert "driver_version,clocks.sm,clocks.max.sm" in asked[0][1]
    assert not {"driver", "gpu_mhz", "gpu_max_mhz"} & row["missing"].keys()


@pytest.mark.parametrize(
    ("text", "code"), [(None, 0), ("", 9), ("No devices were found\n", 6), ("a, b\n", 0)]
)
def test_no_card_is_null_with_a_reason(monkeypatch, text, code):
    smi(monkeypatch, text, code)
    row = machine.machine("cpu")
    for key in ("driver", "gpu_mhz", "gpu_max_mhz"):
        assert row[key] is None and "no nvidia-smi" in row["missing"][key]


def test_nvidia_smi_that_hangs_is_given_up(monkeypatch, tmp_path):
    """A real process that does not end, so that the limit has to reach it."""
    hangs = tmp_path / "nvidia-smi"
    hangs.write_text("#!/bin/sh\nexec sleep 600\n")
    hangs.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(machine, "_SMI_TIMEOUT_S", 0.2)
    row = machine.machine("cpu")
    assert row["driver"] is None and "hung" in row["missing"]["driver"]


def test_a_clock_that_the_card_hides_is_null_and_the_rest_stands(monkeypatch):
    smi(monkeypatch, "570.86.15, [N/A], 1980\n")
    row = machine.machine("cuda")
    assert row["gpu_mhz"] is None and "gpu_mhz" in row["missing"]
    assert row["gpu_max_mhz"] == 1980.0


@pytest.mark.parametrize(
    ("answer", "now", "most"),
    [
        (lambda: SimpleNamespace(current=2400.5, max=3500.0), 2400.5, 3500.0),
        (lambda: SimpleNamespace(current=2400.5, max=0.0), 2400.5, None),
        (lambda: None, None, None),
    ],
)
def test_clocks_of_the_processor(monkeypatch, answer, now, most):
    smi(monkeypatch, None)
    monkeypatch.setattr(machine.psutil, "cpu_freq", answer)
    row = machine.machine("cpu")
    assert (row["cpu_mhz"], row["cpu_max_mhz"]) == (now, most)
    assert ("cpu_mhz" in row["missing"], "cpu_max_mhz" in row["missing"]) == (not now, not most)


def test_versions_name_what_is_not_installed(monkeypatch):
    monkeypatch.setattr(machine, "_PACKAGES", ("torch", "no-such-package"))
    found = machine.versions()
    assert found["torch"] and found["no-such-package"] is None
    assert found["missing"] == {"no-such-package": "not installed"}
