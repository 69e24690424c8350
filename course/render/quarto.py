"""Render with Quarto instead, where it is installed: stage the course as a Quarto website, call it.

Only the student's edition: Quarto runs the cells it may run and shows exercises as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from course.render.page import THEME

# In the repository the pages are in course/ and lessons/; in the site the first are at the root.
TO_LESSONS = re.compile(r"\]\(\.\./lessons/")
TO_COURSE = re.compile(r"\]\(\.\./course/")


def render(root: Path, out: Path) -> None:
    """Stage the course of `root` into build/quarto and render it to `out`."""
    quarto = shutil.which("quarto")
    if quarto is None:
        raise ValueError("quarto is not on the PATH; install it, or leave RENDERER out")
    staged = stage(root, root / "build/quarto")
    command = [quarto, "render", str(staged), "--output-dir", str(out.resolve())]
    if subprocess.run(command, env=_environment(root)).returncode != 0:
        raise ValueError(f"quarto could not render {staged}; its own message is above")


def stage(root: Path, target: Path) -> Path:
    """Lay the sources out as a Quarto project in `target`: course pages at its top."""
    shutil.rmtree(target, ignore_errors=True)
    (target / "lessons").mkdir(parents=True)
    shutil.copyfile(root / "course/_quarto.yml", target / "_quarto.yml")
    for path in sorted(root.glob("course/*.qmd")):
        text = TO_LESSONS.sub("](lessons/", path.read_text(encoding="utf-8"))
        (target / path.name).write_text(text, encoding="utf-8")
    for path in sorted(root.glob("lessons/*.qmd")):
        text = TO_COURSE.sub("](../", path.read_text(encoding="utf-8"))
        (target / "lessons" / path.name).write_text(text, encoding="utf-8")
    for images, place in (("course/images", "images"), ("lessons/images", "lessons/images")):
        if (root / images).is_dir():
            shutil.copytree(root / images, target / place)
    shutil.copytree(THEME / "vendor/katex", target / "assets/katex")
    return target


def _environment(root: Path) -> dict[str, str]:
    """Cells import the engine from the repository, with the python that runs this."""
    return {**os.environ, "PYTHONPATH": str(root), "QUARTO_PYTHON": sys.executable}
