"""The part of a card that tells what the shipped weights reach in the engine.

`python -m lessons.lib.train eval --cards` measures it into engine.json beside the weights and
writes the part; new weights drop both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lessons.lib.draft.registry import shipped
from lessons.lib.model.hf_folder import read_json
from lessons.lib.train.evaluate import Row
from lessons.lib.train.recipes import RECIPES

ENGINE = "engine.json"
_HEADING = "\n## In the engine\n"

_HOW = (
    *("command", "split", "num_prompts", "depth", "max_new_tokens"),
    *("dtype", "temperature", "seed"),
)

Json = dict[str, Any]


def write_cards(rows: Sequence[Row], options: Mapping[str, Any]) -> None:
    """Into the folder of every drafter whose own, shipped weights were measured. options: of the
    command, and num_prompts."""
    how = {key: options[key] for key in _HOW}
    for name in RECIPES:
        mine = [row for row in rows if row.name in ("bigram", name)]
        if any(row.name == name for row in mine):
            write_engine_figures(shipped(name), mine, how)


def write_engine_figures(folder: Path, rows: Sequence[Row], how: Json) -> None:
    """rows: of the drafter whose weights lie in the folder, and of the control. how: _HOW."""
    figures = {"weights": checksum(folder), "how": how, "rows": [asdict(row) for row in rows]}
    (folder / ENGINE).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    card = folder / "card.md"
    before = card.read_text(encoding="utf-8").split(_HEADING)[0]
    card.write_text(before + engine_part(folder), encoding="utf-8")


def drop_engine_figures(folder: Path) -> None:
    """They were of the weights before."""
    (folder / ENGINE).unlink(missing_ok=True)


def checksum(folder: Path) -> str:
    """Of the weights in a folder, as they were written."""
    return (folder / "model.sha256").read_text(encoding="utf-8").strip()


def engine_part(folder: Path) -> str:
    """The part as text, from engine.json."""
    figures = read_json(folder / ENGINE)
    how = figures["how"]
    lines = [
        _HEADING,
        f"`{how['command']}`: {how['num_prompts']} prompts of `{how['split']}`, chains of "
        f"{how['depth']}, {how['max_new_tokens']} tokens an answer, temperature "
        f"{how['temperature']:g}, target and drafter in {how['dtype']}. A round that proposes "
        "nothing counts.",
        "",
        "| | kind | rounds | conditional by position | tokens a round |",
        "|-|-|-|-|-|",
    ]
    for row in figures["rows"]:
        values = " ".join("-" if v is None else f"{v:.2f}" for v in row["conditional"])
        lines.append(
            f"| {row['name']} | {row['kind']} | {row['num_rounds']} | {values} | "
            f"{row['tokens_per_round']:.2f} |"
        )
    return "\n".join(lines) + "\n"
