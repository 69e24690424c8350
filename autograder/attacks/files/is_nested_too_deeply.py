"""
what: JSON a hundred thousand levels deep
source: own
expect: unreadable
"""

from pathlib import Path


def attack(folder: Path) -> None:
    (folder / "lesson08.ipynb").write_text("[" * 100_000, encoding="utf-8")
