"""Every unit of the course as the tests see it. `-k lab08a` runs the tests of one unit."""

import contextlib
import functools
import io
from pathlib import Path
from typing import Any

import yaml

from autograder import assignment, judge
from course.render.qmd import Answer, Cell, Document, parse
from course.render.words import prose

ROOT = Path(__file__).parents[1]
UNITS = judge.units()
LANGUAGES = ("en", "zh")
# Lesson 8 is the hub: its text and its exercise are the course's seed, with rules of their own.
SEED_UNIT = "lesson08"
FORMED = [unit for unit in UNITS if unit != SEED_UNIT]


@functools.cache
def lesson(unit: str, lang: str = "en") -> Document:
    return parse(assignment.lesson_path(unit, lang))


@functools.cache
def solution(unit: str, lang: str = "en") -> Document:
    return parse(assignment.answers_path(unit, lang))


@functools.cache
def rubric(unit: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / f"solutions/{unit}/rubric.yml").read_text(encoding="utf-8"))


def blocks(document: Document) -> list[Cell | Answer]:
    return [block for block in document.blocks if isinstance(block, Cell | Answer)]


def cells(unit: str, role: str) -> list[Cell]:
    return [cell for cell in lesson(unit).cells if cell.role == role]


def section(document: Document, *headings: str) -> str:
    """The text under the first level-2 heading that contains one of `headings`."""
    for part in prose(document).split("\n## "):
        if any(heading in part.split("\n")[0] for heading in headings):
            return part
    raise AssertionError(f"{document.path.name} has no section {headings[0]!r}")


def run(*sources: str) -> tuple[dict[str, Any], str]:
    """The namespace after running cells in order, and what they printed."""
    namespace: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for source in sources:
            exec(source, namespace)
    return namespace, out.getvalue()
