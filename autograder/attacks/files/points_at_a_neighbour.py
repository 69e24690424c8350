"""
what: a folder inside the hand-in is a link to another student's, whose notebook is the only one
source: own
expect: unreadable
"""

from pathlib import Path


def attack(folder: Path) -> None:
    (folder / "lesson08.ipynb").unlink()
    (folder / "work").symlink_to("../../aaa-victim/lesson08", target_is_directory=True)
