"""
what: the notebook is a link to the instructor's own
source: own
expect: unreadable
"""

from pathlib import Path


def attack(folder: Path) -> None:
    (folder / "lesson08.ipynb").unlink()
    (folder / "lesson08.ipynb").symlink_to("../../../source/lesson08/lesson08.ipynb")
