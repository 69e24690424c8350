"""Every kernel compiles for sm_80 and sm_90, which needs no GPU; and a compile error would show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
SCRIPT = Path(__file__).with_name("kernel_compile.py")
ARCHITECTURES = ("80", "90")


def run(arguments, cache):
    environment = {name: v for name, v in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(cache), "PYTHONPATH": str(SCRIPT.parents[1])}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_every_kernel_compiles(tmp_path):
    result = run([str(SCRIPT), *ARCHITECTURES], tmp_path)
    assert result.returncode == 0, result.stderr[-4000:]
    lines = result.stdout.splitlines()
    for arch in ARCHITECTURES:
        assert sum(f"sm_{arch}" in line for line in lines) == len(lines) / len(ARCHITECTURES) > 8


def test_a_kernel_that_is_wrongly_typed_is_refused(tmp_path):
    """Otherwise the test above could not fail."""
    broken = "import kernel_compile as c; from triton.backends.compiler import GPUTarget\n" + (
        "kernel, data, constants, types = c.KERNELS['rms_norm']\n"
        "wrong = c.source(kernel, 'i64', constants, {'x': 'i32'})\n"
        "c.triton.compile(wrong, target=GPUTarget('cuda', 90, 32))\n"
    )
    script = tmp_path / "broken.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r})\n" + broken)
    result = run([str(script)], tmp_path)
    assert result.returncode != 0 and "CompilationError" in result.stderr, result.stderr[-2000:]
