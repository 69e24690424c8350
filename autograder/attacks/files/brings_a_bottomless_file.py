"""
what: a timestamp.txt and a data file of 64 GB each, which take no room on the disk
source: own
carries: right
"""

from pathlib import Path


def attack(folder: Path) -> None:
    for name in ("timestamp.txt", "data.bin"):
        with (folder / name).open("wb") as file:
            file.truncate(64 << 30)
