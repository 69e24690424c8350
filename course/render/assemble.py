"""Put a page together as ONE markdown document for pandoc: prose, code, outputs, answers.

One document, because a callout or a list may span cells; converting cell by cell would close it
at the end of the first.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nbformat import NotebookNode

from course.render.document import Answer, Cell, Document
from course.render.execute import Outputs
from course.render.labels import words
from course.render.qmd import with_fences

PAGINATION = re.compile(r"^:{3,}\s*\{?\s*\.?course-pagination", re.MULTILINE)
DIAGRAM = re.compile(r"^(\s*)(`{3,}|~{3,})\s*\{mermaid\}\s*$")
LITERAL_CELL = re.compile(r"\{\{(\w+)\}\}")
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
SCOPED_STYLE = re.compile(r"<style scoped>.*?</style>\s*", re.DOTALL)
IMAGE_TYPES = {"image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpg"}


@dataclass
class Assembly:
    """The page's markdown, and the pictures its cells drew: file name to bytes."""

    markdown: str = ""
    pictures: dict[str, bytes] = field(default_factory=dict)


def assemble(doc: Document, outputs: Outputs, solution: Document | None = None) -> Assembly:
    """The markdown of a page.

    `outputs` are those of `execute`, one list a cell. Pictures are named relative to the page, in
    the folder <page>_files. With `solution` (the instructor's edition) its text is appended in a
    callout, before the links to the previous and next lesson.
    """
    page = Assembly()
    run = iter(outputs)
    parts: list[str] = []
    for block in doc.body:
        if isinstance(block, Cell):
            parts.append(_cell(doc, block, next(run, []), page))
        elif isinstance(block, Answer):
            parts.append(_answer(doc, block))
        else:
            parts.append(_markdown(block.text))
    text = "\n".join(parts)
    if solution is not None:
        place = PAGINATION.search(text)
        cut = place.start() if place else len(text)
        text = text[:cut] + _solution(doc, solution) + text[cut:]
    page.markdown = text
    return page


def _markdown(text: str) -> str:
    """What pandoc does not read as Quarto does: diagram fences, and literal {{python}} cells."""
    lines = []
    for line, place in with_fences(text.split("\n")):
        if place == "open":
            line = LITERAL_CELL.sub(r"{.\1}", DIAGRAM.sub(r"\1\2 {.mermaid}", line))
        elif place == "inside":
            line = LITERAL_CELL.sub(r"{\1}", line)
        lines.append(line)
    return "\n".join(lines)


def _answer(doc: Document, answer: Answer) -> str:
    points = _points(doc.lang, answer.points)
    tag = _div(".cell-tag", f"{words(doc.lang)['written']} `{answer.label}`{points}")
    return _div(f"#{answer.label} .written-answer", tag + _markdown(answer.body))


def _div(attributes: str, body: str) -> str:
    return f"\n::::: {{{attributes}}}\n{body}\n:::::\n"


def _points(lang: str, points: float | None) -> str:
    if points is None:
        return ""
    return f" · {points:g} {words(lang)['point' if points == 1 else 'points']}"


def _cell(doc: Document, cell: Cell, outputs: list[NotebookNode], page: Assembly) -> str:
    """A code cell with its outputs, in a div that carries its role and label."""
    if cell.options.get("include") is False:
        return ""
    parts = [_tag(doc, cell)]
    if cell.options.get("echo") is not False:
        parts.append(_fenced(cell.source, ".python .cell-code"))
    if cell.options.get("output") is not False:
        parts += _outputs(doc, cell, outputs, page)
    role, label = cell.role or "example", cell.label or ""
    text = _div(f'.cell data-role="{role}" data-label="{label}"', "".join(parts))
    return "\n".join(cell.indent + line if line else line for line in text.split("\n"))


def _tag(doc: Document, cell: Cell) -> str:
    """The line above an exercise, a check, or a cell that needs the student's code."""
    if cell.role not in ("exercise", "practice", "check"):
        return ""
    name = "" if cell.role == "practice" else f" `{cell.label}`"
    points = _points(doc.lang, cell.metadata.get("points") or None)
    return _div(".cell-tag", f"{words(doc.lang)[cell.role]}{name}{points}")


def _fenced(text: str, attributes: str) -> str:
    """A code fence longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"\n{ticks} {{{attributes}}}\n{text.rstrip()}\n{ticks}\n"


def _outputs(
    doc: Document, cell: Cell, outputs: list[NotebookNode], page: Assembly
) -> Iterator[str]:
    """The markdown of each output, neighbouring texts of one stream joined."""
    streams = ""
    for index, output in enumerate(outputs):
        if output.output_type == "stream":
            if output.name == "stderr" and cell.options.get("warning") is False:
                continue
            streams += output.text
            following = outputs[index + 1] if index + 1 < len(outputs) else None
            if following is None or following.get("name") != output.name:
                yield _output(_terminal(streams), output.name)
                streams = ""
        elif output.output_type == "error":
            yield _output(f"{output.ename}: {output.evalue}", "error")
        else:
            yield _data(doc, cell, output.data, page)


def _output(text: str, kind: str) -> str:
    return _div(f".cell-output .cell-output-{kind}", _fenced(text, ".text"))


def _terminal(text: str) -> str:
    """Text as a terminal would leave it: no colours, progress bars at their last state."""
    return "\n".join(line.split("\r")[-1] for line in ANSI.sub("", text).split("\n"))


def _data(doc: Document, cell: Cell, data: NotebookNode, page: Assembly) -> str:
    for mime, extension in IMAGE_TYPES.items():
        if mime in data:
            return _picture(doc, cell, data[mime], extension, page)
    if "text/html" in data:
        html = _fenced(SCOPED_STYLE.sub("", data["text/html"]), "=html")
        return _div(".cell-output .cell-output-html", html)
    if "text/markdown" in data:
        return _div(".cell-output", data["text/markdown"])
    return _output(_terminal(data.get("text/plain", "")), "result")


def _picture(doc: Document, cell: Cell, data: str, extension: str, page: Assembly) -> str:
    """An image; the first one of a cell has the cell's caption and, if it is a fig-, its id."""
    label = cell.label or "cell"
    folder = f"{doc.path.stem}_files"
    is_first = not any(name.startswith(f"{folder}/{label}-") for name in page.pictures)
    name = f"{folder}/{label}-{len(page.pictures) + 1}.{extension}"
    page.pictures[name] = data.encode() if extension == "svg" else base64.b64decode(data)
    caption = str(cell.options.get("fig-cap", "")) if is_first else ""
    identifier = f"#{label} " if is_first and label.startswith("fig-") else ""
    alt = cell.options.get("fig-alt") or caption or f"{words(doc.lang)['output']}: {label}"
    plain = re.sub(r'["\n$`]', "", str(alt))
    image = f'![{caption}]({name}){{{identifier}alt="{plain}"}}'
    return _div(".cell-output .cell-output-figure", image)


def _solution(doc: Document, solution: Document) -> str:
    """The reference answers, folded away. Their ids get a prefix: the lesson has the same ones."""
    parts = []
    for block in solution.body:
        if isinstance(block, Cell):
            tag = _div(".cell-tag", f"`{block.label}`")
            code = _fenced(block.source, ".python .cell-code")
            parts.append(_div('.cell data-role="answer"', tag + code))
        elif isinstance(block, Answer):
            parts.append(_div(f"#ref-{block.label} .reference-answer", _markdown(block.body)))
        else:
            parts.append(_markdown(block.text))
    title = words(doc.lang)["answers"]
    callout = f'.callout-tip .course-answers collapse="true" title="{title}"'
    return _div(callout, "\n".join(parts)) + "\n"
