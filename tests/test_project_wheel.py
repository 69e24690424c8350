"""What a student may install holds the engine and nothing that judges or answers."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_holds_the_engine_alone(tmp_path):
    source = tmp_path / "source"
    # A copy: setuptools would reuse what an earlier build left in build/.
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "classroom"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(tmp_path), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"kernels", "lessons"}
    assert all(
        name.startswith("lessons/lib/")
        for name in names
        if name.count("/") > 1 and name.startswith("lessons/")
    )
    assert "lessons/lib/bench/prompts.json" in names and "lessons/lib/engine.py" in names
    weights = (ROOT / "lessons/lib/weights").rglob("*")
    shipped = {str(path.relative_to(ROOT)) for path in weights if path.is_file()}
    assert shipped and shipped <= set(names)
