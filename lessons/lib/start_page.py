"""The start page: a notebook that lists the units in a folder and how far each of them is.

`write_start_page` makes it with its table already filled in; running its cell again fills it anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lessons.lib.progress import progress

PAGE = "start.ipynb"
UNIT = re.compile(r"(lesson|lab)(\d\d)([a-z]?)")
WORDS = {
    "en": {
        "title": "# Speculative decoding, the course that runs",
        "how": "Open a unit by its link. Run the cell below to see how far you are.",
        "head": "| Unit | Public checks |\n|---|---|",
        "state": "{right} of {all}",
        "foot": "The graded checks draw other inputs, and the questions are read by a person.",
    },
    "zh": {
        "title": "# 投机解码：跑得起来的课程",
        "how": "点击链接打开单元。运行下面的单元格，查看你的进度。",
        "head": "| 单元 | 公开检查 |\n|---|---|",
        "state": "{right} / {all}",
        "foot": "正式评分会抽取其他输入，问答题由人批改。",
    },
}
REFRESH = "from lessons.lib.start_page import show\n\nshow({lang!r})"


def show(lang: str = "en") -> None:
    """Display the table of the folder that the notebook lies in."""
    from IPython.display import Markdown, display

    display(Markdown(table(Path.cwd(), lang)))


def units_in(folder: Path) -> list[Path]:
    """The notebooks of units below a folder, in the order of study: a lesson before its labs."""
    found = [path for path in folder.glob("*/*.ipynb") if UNIT.fullmatch(path.stem)]
    return sorted((p for p in found if p.stem == p.parent.name), key=_order)


def _order(path: Path) -> tuple[str, bool, str]:
    kind, number, letter = UNIT.fullmatch(path.stem).groups()  # type: ignore[union-attr]
    return number, kind == "lab", letter


def table(folder: Path, lang: str = "en") -> str:
    """Markdown: a line a unit, with a link and the public checks that hold."""
    words, lines = WORDS[lang], [WORDS[lang]["head"]]
    for path in units_in(folder):
        state = progress(path)
        told = state.note or words["state"].format(right=state.num_right, all=state.num_checks)
        link = path.relative_to(folder).as_posix()
        lines.append(f"| [{title_of(path)}]({link}) | {told} |")
    return "\n".join([*lines, "", words["foot"]])


def title_of(path: Path) -> str:
    """The unit's title, else the file's name."""
    metadata = json.loads(path.read_text(encoding="utf-8")).get("metadata", {})
    title = str(metadata.get("course", {}).get("title", path.stem))
    return title.replace("|", "\\|").replace("[", "").replace("]", "")


def write_start_page(folder: Path, lang: str = "en") -> Path:
    """Make or renew the page; what is in it comes from the folder alone."""
    words = WORDS[lang]
    filled = {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/markdown": table(folder, lang)},
    }
    cells = [
        _cell("markdown", "about", f"{words['title']}\n\n{words['how']}"),
        _cell("code", "progress", REFRESH.format(lang=lang), [filled]),
    ]
    page = {"cells": cells, "metadata": _KERNEL, "nbformat": 4, "nbformat_minor": 5}
    path = folder / PAGE
    path.write_text(json.dumps(page, indent=1, ensure_ascii=False), encoding="utf-8")
    return path


_KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def _cell(kind: str, name: str, source: str, outputs: Sequence[Any] | None = None) -> dict:
    code = {} if outputs is None else {"outputs": list(outputs), "execution_count": None}
    return {"cell_type": kind, "id": name, "metadata": {}, "source": source, **code}
