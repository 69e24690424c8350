"""
what: the notebook is a pipe that nobody writes to
source: own
expect: unreadable
"""

import os
from pathlib import Path


def attack(folder: Path) -> None:
    (folder / "lesson08.ipynb").unlink()
    os.mkfifo(folder / "lesson08.ipynb")
