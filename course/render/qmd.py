"""Read a Quarto markdown file into a document model, line by line.

Quarto itself finds the cells of a .qmd by scanning lines, not by parsing Markdown, so this does the
same and finds the same cells. Nothing is lost: the texts of all blocks, joined, are the file.

What a file may contain:
- YAML front matter between two `---` lines at the top;
- python cells: a fence ```{python} whose first lines may be `#| key: value` options;
- answer blocks: a fenced div with class `course-answer` and an id, for written answers;
- markdown: everything else, kept as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from course.render.document import Answer, Block, Cell, Document, FrontMatter, Markdown, QmdError

# Options that Quarto understands stay in the cell's source; any other key becomes cell metadata.
# The table is Quarto's (1.10); fig-width, points or course_role are not in it, on purpose.
QUARTO_KEYS = frozenset(
    re.findall(
        r"\S+",
        """eval echo warning error output include label classes panel column fig-align fig-alt
        fig-cap fig-env fig-link fig-pos fig-scap fig-subcap tbl-cap tbl-cap-location tbl-colwidths
        tbl-subcap fig-cap-location cap-location lst-cap lst-label out-width out-height code-fold
        code-summary code-line-numbers code-overflow layout layout-align layout-ncol layout-nrow
        layout-valign html-table-processing""",
    )
)

CELL_OPEN = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,})\s*\{python(?: *[ ,].*)?\}\s*$")
FENCE_OPEN = re.compile(r"^\s*(?:(?P<ticks>`{3,})[^`]*|(?P<tildes>~{3,}).*)$")
DIV_OPEN = re.compile(r"^\s*:{3,}\s*(?:\{(?P<attrs>.*)\}|(?P<word>[\w-]+))\s*:*\s*$")
DIV_CLOSE = re.compile(r"^\s*:{3,}\s*$")
OPTION = re.compile(r"^\s*#\s*\|\s?(?P<yaml>.*)$")
OPTION_KEY = re.compile(r"^(?P<key>[\w-]+)\s*:")
INCLUDE = re.compile(r"^\s*\{\{<\s*include\b")


def parse(path: Path | str) -> Document:
    """Read one .qmd file. Raises QmdError, with file and line, if it is not well formed."""
    path = Path(path)
    try:
        return parse_text(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        raise QmdError(path, 1, "no such file") from None
    except UnicodeDecodeError as error:
        raise QmdError(path, 1, f"not UTF-8 text ({error.reason}); save it as UTF-8") from None


def parse_text(text: str, path: Path | str = "text.qmd") -> Document:
    """Parse the text of a .qmd; `path` is used for the unit's name and in messages."""
    scanner = _Scanner(text, Path(path))
    return Document(Path(path), tuple(scanner.scan()))


def with_fences(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each line of markdown with its place: `text`, or `open`, `inside`, `close` of a fence."""
    fence = ""
    for line in lines:
        if fence and _closes(fence, line):
            fence = ""
            yield line, "close"
        elif fence:
            yield line, "inside"
        elif opened := FENCE_OPEN.match(line):
            fence = opened["ticks"] or opened["tildes"]
            yield line, "open"
        else:
            yield line, "text"


def _closes(fence: str, line: str) -> bool:
    rest = line.strip()
    return len(rest) >= len(fence) and set(rest) == {fence[0]}


class _Scanner:
    """Walks the lines once. `start` is where the current markdown run began."""

    def __init__(self, text: str, path: Path) -> None:
        self.path = path
        self.lines = re.findall(r"[^\n]*\n|[^\n]+$", text)
        self.start = 0
        self.fence: tuple[str, int] | None = None  # (the fence's characters, its line)
        self.divs: list[tuple[int, dict[str, str] | None]] = []  # (line, attributes of an answer)

    def fail(self, line: int, message: str) -> QmdError:
        return QmdError(self.path, line, message)

    def run(self, stop: int) -> str:
        return "".join(self.lines[self.start : stop])

    def flush(self, stop: int) -> Iterator[Block]:
        """The markdown collected before line index `stop`, if any."""
        if stop > self.start:
            yield Markdown(self.run(stop), self.start + 1)
        self.start = stop

    def scan(self) -> Iterator[Block]:
        yield from self.front_matter()
        index = self.start
        while index < len(self.lines):
            line = self.lines[index].rstrip()
            if cell := CELL_OPEN.match(line):
                self.check_cell_place(index)
                yield from self.flush(index)
                end = self.cell_end(index, cell)
                yield self.cell(index, end, cell["indent"])
                index = self.start = end + 1
                continue
            if self.fence is None:
                yield from self.outside_fence(index, line)
            elif _closes(self.fence[0], line):
                self.fence = None
            index += 1
        self.check_all_closed()
        yield from self.flush(len(self.lines))

    def front_matter(self) -> Iterator[Block]:
        if not self.lines or self.lines[0].rstrip() != "---":
            return
        for index in range(1, len(self.lines)):
            if self.lines[index].rstrip() in ("---", "..."):
                data = self.yaml("".join(self.lines[1:index]), 2, "front matter")
                self.start = index + 1
                yield FrontMatter("".join(self.lines[: index + 1]), 1, data)
                return
        raise self.fail(1, "the front matter is not closed; end it with a line `---`")

    def outside_fence(self, index: int, line: str) -> Iterator[Block]:
        """Keep track of fences and divs; give an answer block when its div closes."""
        if fence := FENCE_OPEN.match(line):
            self.fence = (fence["ticks"] or fence["tildes"], index + 1)
        elif INCLUDE.match(line):
            raise self.fail(
                index + 1, "include shortcodes are not used here; write the text itself"
            )
        elif DIV_CLOSE.match(line):
            if not self.divs:
                raise self.fail(
                    index + 1, "this `:::` closes nothing; remove it or open a div above"
                )
            _, attributes = self.divs.pop()
            if attributes is not None:
                yield self.answer(index + 1, attributes)
        elif div := DIV_OPEN.match(line):
            attributes = _answer_attributes(div["attrs"] or f".{div['word']}")
            if attributes is not None:
                if self.divs:
                    raise self.fail(index + 1, "an answer div must not stand inside another div")
                yield from self.flush(index)
            self.divs.append((index + 1, attributes))

    def check_cell_place(self, index: int) -> None:
        if self.fence is not None:
            raise self.fail(
                index + 1,
                "a {python} cell inside the fence opened on line "
                f"{self.fence[1]} would be run by Quarto; write it as {{{{python}}}}",
            )
        if self.divs and self.divs[0][1] is not None:
            raise self.fail(index + 1, "a cell inside an answer div; close the div before it")

    def cell_end(self, index: int, cell: re.Match[str]) -> int:
        """Index of the closing line: the same indent and the same number of backticks."""
        closing = cell["indent"] + cell["ticks"]
        for end in range(index + 1, len(self.lines)):
            if self.lines[end].rstrip() == closing:
                return end
        raise self.fail(index + 1, f"this cell is not closed; end it with {cell['ticks']}")

    def cell(self, index: int, end: int, indent: str) -> Cell:
        lines = [self.lines[i].rstrip("\r\n").removeprefix(indent) for i in range(index + 1, end)]
        while lines and not lines[0].strip():
            lines.pop(0)
        first_line = end - len(lines) + 1
        options: list[str] = []
        while lines and (option := OPTION.match(lines[0])):
            options.append(option["yaml"].rstrip())
            lines.pop(0)
        data = self.yaml("\n".join(options), first_line, "cell options")
        return Cell(
            text="".join(self.lines[index : end + 1]),
            line=index + 1,
            source="\n".join(lines).strip("\n"),
            options={key: value for key, value in data.items() if key in QUARTO_KEYS},
            metadata={key: value for key, value in data.items() if key not in QUARTO_KEYS},
            option_lines=tuple(_known_option_lines(options)),
            indent=indent,
        )

    def answer(self, stop: int, attributes: dict[str, str]) -> Answer:
        line, text = self.start + 1, self.run(stop)
        label, points = attributes.get("id"), attributes.get("points")
        if label is None:
            raise self.fail(line, "an answer div needs an id, such as {#q1 .course-answer}")
        if points is not None and not re.fullmatch(r"\d+(\.\d+)?", points):
            raise self.fail(line, f'points="{points}" is not a number')
        body = "".join(self.lines[self.start + 1 : stop - 1])
        self.start = stop
        value = None if points is None else float(points)
        return Answer(
            text, line, label, int(value) if value and value.is_integer() else value, body
        )

    def yaml(self, text: str, line: int, what: str) -> dict[str, Any]:
        """A YAML mapping; `line` is the file line of its first one, for the message."""
        try:
            data = yaml.safe_load(text) or {}
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or str(error).splitlines()[0]
            offset = mark.line if mark else 0
            raise self.fail(line + offset, f"{what} are not YAML: {reason}") from None
        if not isinstance(data, dict):
            raise self.fail(line, f"{what} must be lines of `key: value`, found {str(data)[:40]!r}")
        return data

    def check_all_closed(self) -> None:
        if self.fence is not None:
            opened, line = self.fence
            raise self.fail(line, f"this fence is not closed; end it with {opened}")
        if self.divs:
            raise self.fail(self.divs[-1][0], "this div is not closed; end it with `:::`")


def _answer_attributes(attributes: str) -> dict[str, str] | None:
    """Id and key="value" pairs of an answer div's attributes; None for any other div."""
    if not re.search(r"(?:^|\s)\.course-answer(?:\s|$)", attributes):
        return None
    found = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
    if name := re.search(r"(?:^|\s)#([\w-]+)", attributes):
        found["id"] = name[1]
    return found


def _known_option_lines(lines: list[str]) -> Iterator[str]:
    """The option lines of keys that Quarto knows, continuation lines included."""
    keep = False
    for line in lines:
        if key := OPTION_KEY.match(line):
            keep = key["key"] in QUARTO_KEYS
        if keep:
            yield line
