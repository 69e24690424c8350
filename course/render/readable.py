"""Rewrite a notebook's markdown so that JupyterLab, which knows no Pandoc syntax, shows it well.

Callouts become blockquotes, or <details> where they collapse; other `:::` lines go; diagrams become
plain ```mermaid fences, which JupyterLab draws; links to other .qmd files become plain text;
attributes in braces go, but a heading's `hint-` id stays as an anchor before it; figures and
references to them get their numbers.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field

from nbformat import NotebookNode

from course.render.labels import CALLOUTS, words
from course.render.qmd import DIV_CLOSE, DIV_OPEN, with_fences

ATTRIBUTES = r"\{(?:[#.][\w-]|[\w-]+=)[^{}]*\}"
SPAN = re.compile(rf"(?<!!)\[([^\[\]]+)\]{ATTRIBUTES}")
TRAILING_ATTRIBUTES = re.compile(rf"(?<=[\])`]){ATTRIBUTES}")
HEADING = re.compile(rf"^(#+)\s+(.*?)\s*(?:{ATTRIBUTES})?\s*$")
HINT_ID = re.compile(r"\{#(hint-[\w-]+)\}\s*$")
PAGE_LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\([^()\s]*\.qmd(?:#[^()\s]*)?\)")
IMAGE = re.compile(rf"^(\s*!\[(.*)\]\([^()]*\))\s*({ATTRIBUTES})\s*$")
FLOAT_ID = re.compile(r"(?:#|label:\s*)((?:fig|tbl)-[\w-]+)")
REFERENCE = re.compile(r"(?<![\w`])@((?:fig|tbl)-[\w-]+)")
FENCE_CLASS = re.compile(r"^(\s*(?:`{3,}|~{3,}))\s*\{+\.?([\w-]+)[^}]*\}+\s*$")
DIAGRAM_OPTION = re.compile(r"^\s*%%\|\s*([\w-]+):\s*[\"']?(.*?)[\"']?\s*$")


def readable(notebook: NotebookNode) -> NotebookNode:
    """A copy of `notebook` (of `to_notebook`) with its markdown made fit for JupyterLab."""
    result = copy.deepcopy(notebook)
    course = result.metadata.get("course", {})
    writer = _Writer(words(course.get("lang", "en")), _numbers(result))
    for cell in result.cells:
        if cell.cell_type == "raw" and cell.metadata.get("course_role") == "front-matter":
            cell.cell_type, cell.source = "markdown", f"# {course.get('title', '')}"
        elif cell.cell_type == "markdown":
            cell.source = writer.rewrite(cell.source)
    result.cells = [cell for cell in result.cells if cell.source.strip()]
    return result


def _numbers(notebook: NotebookNode) -> dict[str, int]:
    """The number of each fig- and tbl- id, in order of appearance."""
    numbers: dict[str, int] = {}
    for found in FLOAT_ID.findall("\n".join(cell.source for cell in notebook.cells)):
        kind = found.split("-")[0]
        numbers.setdefault(found, 1 + sum(1 for key in numbers if key.startswith(kind)))
    return numbers


@dataclass
class _Div:
    kind: str  # callout, details, dropped, float or plain
    name: str = ""
    awaits_title: bool = False


@dataclass
class _Writer:
    """Rewrites cell after cell: a div may open in one markdown cell and close in a later one."""

    words: dict[str, str]
    numbers: dict[str, int]
    divs: list[_Div] = field(default_factory=list)
    out: list[str] = field(default_factory=list)
    diagram: dict[str, str] = field(default_factory=dict)

    def rewrite(self, source: str) -> str:
        self.out = []
        lines = source.split("\n")
        for index, (line, place) in enumerate(with_fences(lines)):
            if place == "open":
                self.emit(FENCE_CLASS.sub(r"\1\2", line))
            elif place == "inside":
                self.inside_fence(line)
            elif place == "close":
                self.close_fence(line)
            elif DIV_CLOSE.match(line) and self.divs:
                self.close(self.divs.pop())
            elif div := DIV_OPEN.match(line):
                self.open(div["attrs"] or f".{div['word']}", lines[index + 1 :])
            else:
                self.text(line)
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self.out)).strip("\n")

    def emit(self, line: str) -> None:
        if any(div.kind == "dropped" for div in self.divs):
            return
        quote = "> " * sum(div.kind == "callout" for div in self.divs)
        self.out.append((quote + line).rstrip())

    def inside_fence(self, line: str) -> None:
        if option := DIAGRAM_OPTION.match(line):
            self.diagram[option[1]] = option[2]
        else:
            self.emit(line.replace("{{python}}", "{python}"))

    def close_fence(self, line: str) -> None:
        self.emit(line)
        if caption := self.diagram.get("fig-cap"):
            label = self.diagram.get("label", "")
            self.emit("")
            self.emit(self.numbered(label, caption) if label in self.numbers else f"*{caption}*")
        self.diagram = {}

    def text(self, line: str) -> None:
        heading = HEADING.match(line)
        if self.divs and self.divs[-1].awaits_title and line.strip():
            div = self.divs[-1]
            div.awaits_title = False
            title = heading[2] if heading else div.name
            self.title(div, self.inline(title))
            if heading:
                return
        if image := IMAGE.match(line):
            self.emit(image[1])
            if found := FLOAT_ID.search(image[3]):
                self.emit("")
                self.emit(self.numbered(found[1], self.inline(image[2])))
            return
        if heading and (name := HINT_ID.search(line)):
            self.emit(f'<a id="{name[1]}"></a>\n')
        self.emit(self.inline(f"{heading[1]} {heading[2]}" if heading else line))

    def inline(self, text: str) -> str:
        """Everything outside code spans: links to pages, attributes, references."""
        pieces = re.split(r"(`+[^`]*`+)", text)
        for index in range(0, len(pieces), 2):
            piece = PAGE_LINK.sub(r"\1", pieces[index])
            piece = SPAN.sub(r"\1", piece)
            pieces[index] = REFERENCE.sub(self.reference, piece)
        return TRAILING_ATTRIBUTES.sub("", "".join(pieces))

    def reference(self, match: re.Match[str]) -> str:
        number = self.numbers.get(match[1])
        return f"{self.words[match[1][:3]]} {number}" if number else match[0]

    def numbered(self, name: str, caption: str) -> str:
        return f"*{self.words[name[:3]]} {self.numbers[name]}: {caption}*"

    def open(self, attributes: str, rest: list[str]) -> None:
        callout = re.search(r"\.callout-(\w+)", attributes)
        if callout and callout[1] in CALLOUTS:
            self.open_callout(callout[1], attributes, rest)
        elif ".course-pagination" in attributes:
            self.divs.append(_Div("dropped"))
        elif found := FLOAT_ID.search(attributes):
            self.divs.append(_Div("float", found[1]))
        else:
            self.divs.append(_Div("plain"))

    def open_callout(self, kind: str, attributes: str, rest: list[str]) -> None:
        title = re.search(r'title="([^"]*)"', attributes)
        simple = re.search(r"appearance=\"?(simple|minimal)", attributes)
        folds = re.search(r"collapse=\"?(true|false)", attributes) and _closes_here(rest)
        div = _Div("details" if folds else "callout", self.words[kind])
        self.emit("")
        self.divs.append(div)
        if title:
            self.title(div, self.inline(title[1]))
        else:
            div.awaits_title = not simple or bool(folds)

    def title(self, div: _Div, title: str) -> None:
        lines = [f"<details><summary>{title}</summary>"] if div.kind == "details" else []
        for line in [*(lines or [f"**{title}**"]), ""]:
            self.emit(line)

    def close(self, div: _Div) -> None:
        if div.kind == "details":
            self.emit("")
            self.emit("</details>")
        elif div.kind == "float":
            self.number_last_line(div.name)
        if div.kind in ("callout", "details"):
            self.emit("")

    def number_last_line(self, name: str) -> None:
        """The last paragraph of a figure's or table's div is its caption."""
        for index in range(len(self.out) - 1, -1, -1):
            if self.out[index].strip(" >"):
                self.out[index] = self.numbered(name, self.out[index].strip(" >"))
                return


def _closes_here(lines: list[str]) -> bool:
    """Whether the div that was just opened is closed within these lines."""
    depth = 1
    for line, place in with_fences(lines):
        if place == "text" and DIV_CLOSE.match(line):
            depth -= 1
        elif place == "text" and DIV_OPEN.match(line):
            depth += 1
        if depth == 0:
            return True
    return False
