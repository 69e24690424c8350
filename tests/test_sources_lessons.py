"""Every line range that a lesson or an answer prints beside a symbol or path is in the map."""

import re
from pathlib import Path

import pytest

from course.render.source_map import DEFAULT_MAP, load

PAGES = sorted([*Path("lessons").glob("*.qmd"), *Path("solutions").glob("*/*.qmd")])
# `name` 12–34, `name`, 12–34 or `name` (12–34): the name is a symbol or the end of a path.
PRINTED = re.compile(r"`([^`\s]+)`[,，]? ?[(（]?(\d+)–(\d+)")


@pytest.fixture(scope="module")
def known() -> set[tuple[str, tuple[int, int]]]:
    return {
        (name, concept.lines)
        for concept in load(DEFAULT_MAP).concepts
        for whole, mark in ((concept.symbol, "."), (concept.path, "/"))
        for name in _endings(whole, mark)
    }


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_printed_ranges_are_checked_ranges(
    page: Path, known: set[tuple[str, tuple[int, int]]]
) -> None:
    printed = {
        (name, (int(first), int(last)))
        for name, first, last in PRINTED.findall(page.read_text(encoding="utf-8"))
    }
    assert printed - known == set()


def _endings(whole: str, mark: str) -> list[str]:
    parts = whole.split(mark)
    return [mark.join(parts[i:]) for i in range(len(parts))]
