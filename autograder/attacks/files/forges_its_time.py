"""
what: a timestamp.txt long before the deadline, with more behind it
source: stock 22
carries: right
"""

from pathlib import Path


def attack(folder: Path) -> None:
    (folder / "timestamp.txt").write_text("2001-01-01 00:00:00 UTC", encoding="utf-8")
