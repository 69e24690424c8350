"""Runs `kernel_interpreted.py` where TRITON_INTERPRET is set before Triton is imported."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

triton = pytest.importorskip("triton")
SUITE = Path(__file__).with_name("kernel_interpreted.py")


def version(module):
    return tuple(int(part) for part in module.__version__.split(".")[:2])


@pytest.mark.skipif(
    version(triton) < (3, 7) and version(numpy) >= (2, 4),
    reason="the interpreter of Triton 3.6 converts arrays in a way that NumPy 2.4 refuses",
)
def test_kernels_under_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SUITE)]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=SUITE.parents[1]
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    summary = result.stdout.splitlines()[-1]
    assert re.match(r"\d\d+ passed in", summary), f"nothing may be skipped: {summary}"
