"""
what: the wrong answer under the right name, and right ones under others
source: own
"""

import shutil
from pathlib import Path


def attack(folder: Path) -> None:
    for name in ("lesson08 (1).ipynb", "Lesson08.ipynb", ".hidden.ipynb", "a/lesson08.ipynb"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(folder / "lesson08.ipynb", folder / name)
