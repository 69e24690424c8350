"""The document model of a .qmd file: what the parser gives and everything else reads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class QmdError(ValueError):
    """A source that cannot be read; the message is one line: file, line, what is wrong."""

    def __init__(self, path: Path | str, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")
        self.path, self.line, self.message = path, line, message


@dataclass(frozen=True)
class Block:
    """A run of whole source lines. `line` is the number of the first one, counted from 1."""

    text: str
    line: int


@dataclass(frozen=True)
class FrontMatter(Block):
    """The YAML header, fences included in `text`, parsed in `data`."""

    data: dict[str, Any]


@dataclass(frozen=True)
class Markdown(Block):
    """Markdown, fenced divs and non-python fences included, exactly as written."""


@dataclass(frozen=True)
class Cell(Block):
    """A python cell.

    `source` is the code without its options and without the cell's indent; `options` holds the
    keys that Quarto knows and `metadata` all others, as Quarto's own converter splits them.
    `option_lines` are the YAML lines of `options` as written.
    """

    source: str
    options: dict[str, Any]
    metadata: dict[str, Any]
    option_lines: tuple[str, ...] = ()
    indent: str = ""

    @property
    def label(self) -> str | None:
        """The cell's `#| label`, which names it everywhere, or None."""
        value = self.options.get("label")
        return None if value is None else str(value)

    @property
    def role(self) -> str | None:
        """setup, exercise, practice, check, or None for an example."""
        return self.metadata.get("course_role")


@dataclass(frozen=True)
class Answer(Block):
    """A written answer: the div's id is `label`; `body` is the text between the `:::` lines."""

    label: str
    points: float | None
    body: str


@dataclass(frozen=True)
class Document:
    """One .qmd file: `blocks` in file order, the front matter (if any) first."""

    path: Path
    blocks: tuple[Block, ...] = field(repr=False)

    @property
    def front(self) -> dict[str, Any]:
        """The front matter's data; empty where there is none."""
        first = self.blocks[0] if self.blocks else None
        return first.data if isinstance(first, FrontMatter) else {}

    @property
    def body(self) -> tuple[Block, ...]:
        """All blocks but the front matter."""
        return tuple(block for block in self.blocks if not isinstance(block, FrontMatter))

    @property
    def cells(self) -> list[Cell]:
        """The python cells, in order."""
        return [block for block in self.blocks if isinstance(block, Cell)]

    @property
    def answers(self) -> list[Answer]:
        """The written-answer blocks, in order."""
        return [block for block in self.blocks if isinstance(block, Answer)]

    @property
    def title(self) -> str:
        """The title of the front matter, else the file's stem."""
        return str(self.front.get("title", self.path.stem))

    @property
    def lang(self) -> str:
        """`zh` or `en`: the front matter's lang, else what the file name says."""
        default = "zh" if self.path.stem.endswith(".zh") else "en"
        return str(self.front.get("lang", default))

    @property
    def unit(self) -> str:
        """The part of the file's name up to the first `_` or `.`: lesson08."""
        return re.split(r"[_.]", self.path.name)[0]


def unit_order(unit: str) -> tuple[str, bool, str]:
    """Sorts units as they are studied: by number, a lesson before its labs."""
    return "".join(filter(str.isdigit, unit)), unit.startswith("lab"), unit
