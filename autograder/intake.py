"""Rebuild a submission from the release: keep the student's answers, believe nothing else.

Whatever was done to the notebook (cells renamed, retagged, locked text edited, deleted,
duplicated, split, retyped), the result has exactly the released cells in their order, with the
student's answers plugged in and the student's own extra cells between them. Every repair leaves
one message that names its cell. Nothing of the student's metadata survives.
"""

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.handed_in import read

MAX_CELL_CHARS = 100_000
MAX_TEXT_CHARS = 20_000  # rendering takes time with the square of the length of some texts
MAX_EXTRA_CELLS, MAX_EXTRA_CHARS = 200, 200_000
MAX_NAMES_SHOWN = 6
CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
DEFINES = re.compile(r"^(?:def|class)[ \t]+(\w+)|^(\w+)[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE)
GRADING_KEYS = ("grade", "solution", "locked", "points", "task")


@dataclass(frozen=True)
class Submitted:
    """One cell of the submission, reduced to what may be believed."""

    index: int
    id: str
    kind: str  # code, markdown or raw
    grade_id: str
    source: str
    grading: tuple[Any, ...]
    tags: tuple[str, ...]
    is_too_large: bool


def clean(submitted: str | bytes, release: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The rebuilt notebook and the messages. Raises Unreadable, and nothing else."""
    return clean_notebook(read(submitted), release)


def clean_notebook(
    submitted: Mapping[str, Any], release: NotebookNode
) -> tuple[NotebookNode, list[str]]:
    """As `clean`, for a notebook already read from JSON. Cleaning twice changes nothing."""
    cells = submitted.get("cells")
    found = [cell for cell in cells if isinstance(cell, Mapping)] if isinstance(cells, list) else []
    return _Rebuild([read_cell(n, cell) for n, cell in enumerate(found)], release).run()


def read_cell(index: int, cell: Mapping[str, Any]) -> Submitted:
    """A cell whatever its shape: a part of the wrong type counts as absent."""
    metadata = cell.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    grading = metadata.get("nbgrader")
    grading = grading if isinstance(grading, Mapping) else {}
    source = cell.get("source")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    tags = metadata.get("tags")
    kind = cell.get("cell_type")
    is_too_large = isinstance(source, str) and len(source) > max_chars(kind)
    return Submitted(
        index=index,
        id=_text(cell.get("id")),
        kind=kind if kind in ("code", "markdown") else "raw",
        grade_id=_text(grading.get("grade_id")),
        source="" if is_too_large else _text(source),
        grading=tuple(grading.get(key) for key in GRADING_KEYS) if grading else (),
        tags=tuple(t for t in tags if isinstance(t, str)) if isinstance(tags, list) else (),
        is_too_large=is_too_large,
    )


def max_chars(kind: Any) -> int:
    """How long a cell of this type may be."""
    return MAX_CELL_CHARS if kind == "code" else MAX_TEXT_CHARS


def _text(value: Any) -> str:
    """A string that can be written as UTF-8 (a lone surrogate cannot)."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def normal(source: str) -> str:
    """Text without the differences that editors make: line ends and trailing blanks."""
    return "\n".join(line.rstrip() for line in source.splitlines()).strip()


def defined_names(source: str) -> tuple[str, ...]:
    """Names of functions, classes and variables that a cell binds at its top level."""
    found = [function or variable for function, variable in DEFINES.findall(source)]
    return tuple(dict.fromkeys(found))


def grade_id(cell: Mapping[str, Any]) -> str:
    """nbgrader's id of a released cell."""
    return cell["metadata"]["nbgrader"]["grade_id"]


def is_answer(cell: Mapping[str, Any]) -> bool:
    """True for a cell that the student writes, code or text."""
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


class _Rebuild:
    """One pass: match submitted cells to released ones, choose answers, place the extras."""

    def __init__(self, cells: list[Submitted], release: NotebookNode) -> None:
        self.cells, self.release = cells, release
        self.messages: list[str] = []
        self.released = {grade_id(cell): cell for cell in release.cells}
        self.by_id = {cell.get("id"): name for name, cell in self.released.items()}
        self.by_text = {
            (cell.cell_type, normal(cell.source)): name for name, cell in self.released.items()
        }
        # Which released cell each submitted cell stands for, by index; "" for the student's own.
        self.owner = {cell.index: self._match(cell) for cell in cells}
        self.copies: dict[str, list[Submitted]] = {name: [] for name in self.released}
        for cell in cells:
            if self.owner[cell.index]:
                self.copies[self.owner[cell.index]].append(cell)

    def run(self) -> tuple[NotebookNode, list[str]]:
        if not any(self.owner.values()):
            self.messages.append("none of the lesson's cells is in this file: is it the right one?")
        answers = {
            name: self._answer(name, cell)
            for name, cell in self.released.items()
            if is_answer(cell)
        }
        self._report_locked()
        self._report_too_large()
        notebook = copy.deepcopy(self.release)
        for cell in notebook.cells:
            cell.source = answers.get(grade_id(cell), cell.source)
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        notebook.cells = self._with_extras(notebook.cells)
        return notebook, self.messages

    def _match(self, cell: Submitted) -> str:
        """By grade id; a cell that has lost it, by cell id; a copy without either, by its text."""
        if cell.grade_id in self.released:
            return cell.grade_id
        return self.by_id.get(cell.id) or self.by_text.get((cell.kind, normal(cell.source)), "")

    def _answer(self, name: str, released: NotebookNode) -> str:
        """The text of an answer cell: the student's, or the released blank."""
        copies = sorted(self.copies[name], key=lambda cell: cell.id != released.get("id"))
        written = [c for c in copies if normal(c.source) != normal(released.source)]
        wanted = set(defined_names(released.source)) if released.cell_type == "code" else set()
        if not written and wanted:
            written = [c for c in self.cells if self._defines(c, wanted)][-1:]
        if not written:
            if not copies:
                self.messages.append(f"cell {name} was missing: put back, not filled in")
            return released.source
        for cell in written:
            self.owner[cell.index] = name
        distinct: dict[str, Submitted] = {}
        for cell in written:
            distinct.setdefault(normal(cell.source), cell)
        parts = list(distinct.values())
        self._report_damage(name, released, parts[0])
        if len(parts) > 1:
            return self._one_of(name, parts, wanted)
        if len(copies) > len(written) > 0:
            self.messages.append(f"cell {name} is there twice: the copy that is filled in counts")
        return parts[0].source

    def _defines(self, cell: Submitted, wanted: set[str]) -> bool:
        is_own = cell.kind == "code" and not self.owner[cell.index]
        return is_own and wanted <= set(defined_names(cell.source))

    def _one_of(self, name: str, parts: list[Submitted], wanted: set[str]) -> str:
        """Several differing copies: the original, unless they are one answer, split in parts."""
        in_order = sorted(parts, key=lambda cell: cell.index)
        together = "\n\n".join(cell.source for cell in in_order)
        is_whole = bool(wanted) and wanted <= set(defined_names(parts[0].source))
        if not is_whole and wanted <= set(defined_names(together)):
            self.messages.append(f"cell {name} is there in {len(parts)} parts: read as one")
            return together
        self.messages.append(
            f"cell {name} is there {len(parts)} times with different text: the one in its original"
            " place counts; delete the others"
        )
        return parts[0].source

    def _report_damage(self, name: str, released: NotebookNode, chosen: Submitted) -> None:
        if chosen.kind != released.cell_type:
            self.messages.append(
                f"cell {name} had become a {chosen.kind} cell: it is a {released.cell_type} cell"
                " again"
            )
        if chosen.grade_id == name:
            self._report_metadata(name, released, [chosen])
        elif chosen.id == released.get("id"):
            self.messages.append(f"cell {name} had lost its grading data: known by its cell id")
        else:
            self.messages.append(
                f"cell {name} was not filled in or missing: your own cell that defines the same"
                " names is graded in its place"
            )

    def _report_metadata(self, name: str, released: NotebookNode, copies: list[Submitted]) -> None:
        """Flags and tags are restored anyway; say so when they had been changed."""
        if renamed := [c.grade_id[:40] for c in copies if c.grade_id not in ("", name)]:
            self.messages.append(f"cell {name} was renamed to {renamed[0]!r}: restored")
        right = tuple(released.metadata.nbgrader.get(key) for key in GRADING_KEYS)
        if any(c.grading != right for c in copies if c.grading):
            self.messages.append(f"the grading data of cell {name} was changed: restored")
        if tags := sorted({repr(tag[:40]) for c in copies for tag in c.tags}):
            self.messages.append(f"cell {name} was tagged {', '.join(tags[:4])}: tags are removed")

    def _report_locked(self) -> None:
        missing, changed = [], []
        for name, released in self.released.items():
            copies = self.copies[name]
            if is_answer(released):
                continue
            if not copies:
                missing.append(name)
            elif any(
                c.kind != released.cell_type or normal(c.source) != normal(released.source)
                for c in copies
            ):
                changed.append(name)
            self._report_metadata(name, released, copies)
        for names, what in ((missing, "missing: put back"), (changed, "changed: restored")):
            if names:
                more = f" and {len(names) - MAX_NAMES_SHOWN} more" * (len(names) > MAX_NAMES_SHOWN)
                shown = ", ".join(names[:MAX_NAMES_SHOWN])
                self.messages.append(f"locked cells that were {what}: {shown}{more}")

    def _report_too_large(self) -> None:
        for cell in self.cells:
            if cell.is_too_large:
                name = self.owner[cell.index] or f"number {cell.index + 1}"
                size = f"{max_chars(cell.kind):,} characters"
                self.messages.append(f"cell {name} holds over {size}: it was not read")

    def _with_extras(self, released: list[NotebookNode]) -> list[NotebookNode]:
        """Put each of the student's own cells after the released cell it stood behind."""
        behind: dict[str, list[Submitted]] = {}
        place, num_extras, num_read, num_chars = "", 0, 0, 0
        for cell in self.cells:
            place = self.owner[cell.index] or place
            if not self.owner[cell.index] and cell.source.strip() and cell.kind != "raw":
                num_extras += 1
                num_chars += len(cell.source)
                if num_extras <= MAX_EXTRA_CELLS and num_chars <= MAX_EXTRA_CHARS:
                    behind.setdefault(place, []).append(cell)
                    num_read += 1
        if num_extras > num_read:
            self.messages.append(f"only the first {num_read} of your own cells were read")
        taken = {str(cell.get("id")) for cell in released}
        built = [_extra(cell, taken) for cell in behind.get("", [])]
        for locked in released:
            built += [locked, *(_extra(cell, taken) for cell in behind.get(grade_id(locked), []))]
        return built


def _extra(cell: Submitted, taken: set[str]) -> NotebookNode:
    """A student's own cell without its metadata, under an id that is valid and unique."""
    name = cell.id if CELL_ID.match(cell.id) and cell.id not in taken else f"extra-{cell.index}"
    while name in taken:
        name += "x"
    taken.add(name)
    make = new_code_cell if cell.kind == "code" else new_markdown_cell
    return make(cell.source, id=name, metadata={"course_role": "extra"})
