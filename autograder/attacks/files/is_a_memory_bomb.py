"""
what: nine megabytes of JSON that become three million cells
source: own
expect: unreadable
"""

from pathlib import Path


def attack(folder: Path) -> None:
    text = '{"cells": [' + "{}," * 3_000_000 + "{}]}"
    (folder / "lesson08.ipynb").write_text(text, encoding="utf-8")
