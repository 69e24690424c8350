import dataclasses
import os
import subprocess
import sys

import pytest
import torch

from kernels import runtime


def test_probe_reports_this_process():
    found = runtime.probe()
    assert found.torch == torch.__version__
    assert found.num_threads == torch.get_num_threads()
    assert found.python == sys.version.split()[0]
    assert found.cpu
    assert (found.gpu is None) == (not torch.cuda.is_available())
    assert dataclasses.asdict(found)["can_compile_triton"] in (True, False)


def test_bfloat16_is_read_from_the_cpu_flags(monkeypatch):
    for flags, expected in (("fpu avx512_bf16", True), ("fpu avx2", False), ("", False)):
        monkeypatch.setattr(runtime, "_cpu_flags", lambda flags=flags: {"flags": flags})
        assert runtime._cpu_has_bfloat16() is expected


def test_cuda_is_used_when_there_and_refused_when_not(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert runtime.resolve_device("auto").type == "cpu"
    with pytest.raises(runtime.InputError, match="no CUDA device"):
        runtime.resolve_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert runtime.resolve_device("auto").type == "cuda"
    assert runtime.resolve_device("cpu").type == "cpu"


def test_unknown_names_list_the_known_ones():
    with pytest.raises(runtime.InputError, match="'tpu'; choose one of auto, cpu, cuda"):
        runtime.resolve_device("tpu")
    with pytest.raises(runtime.InputError, match="'int4'; choose one of float32, bfloat16"):
        runtime.resolve_dtype("int4")


@pytest.mark.parametrize("module", ["kernels.runtime", "lessons.lib.sampling"])
@pytest.mark.parametrize(
    "asked, expected", [({}, "passive 1000"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None")]
)
def test_openmp_waits_asleep_before_torch_is_loaded(module, asked, expected):
    code = (
        f"import sys, os, kernels; assert 'torch' not in sys.modules; import {module};"
        "print(os.environ['OMP_WAIT_POLICY'], os.environ.get('GOMP_SPINCOUNT'))"
    )
    ours = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {k: v for k, v in os.environ.items() if k not in ours} | asked
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected


@pytest.mark.parametrize(
    "asked, expected",
    [({}, "passive 10000"), ({"GOMP_SPINCOUNT": "7"}, "passive 7")]
    + [({"OMP_WAIT_POLICY": "active"}, "active None")],
)
def test_a_command_that_measures_spins_longer_unless_told_otherwise(asked, expected):
    code = (
        "import os, sys, kernels; kernels.take_the_machine(); assert 'torch' not in sys.modules;"
        "print(os.environ['OMP_WAIT_POLICY'], os.environ.get('GOMP_SPINCOUNT'))"
    )
    ours = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {k: v for k, v in os.environ.items() if k not in ours} | asked
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_released_threads_are_gone_and_come_back():
    """Else the workers of a thread that computes no more hold up those of the one that does."""
    code = (
        "import os, time, torch; from kernels import runtime\n"
        "count = lambda: len(os.listdir('/proc/self/task'))\n"
        "torch.set_num_threads(2); a = torch.ones(1000, 1000); a @ a\n"
        "both = count(); runtime.release_threads(); left, until = count(), time.time() + 60\n"
        "while left == both and time.time() < until: left = count()\n"  # they take a moment to end
        "print(both - left, float((a @ a)[0, 0]), count() - left)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1000.0", "1"]
