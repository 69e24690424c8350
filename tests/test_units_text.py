"""Every unit in both languages: the same lesson, of one lesson's length, with its sources."""

import re
from collections import Counter

import pytest
from unit_kit import (
    FORMED,
    LANGUAGES,
    ROOT,
    SEED_UNIT,
    UNITS,
    blocks,
    cells,
    lesson,
    section,
)

from course.render.qmd import Cell, parse
from course.render.source_map import DEFAULT_MAP, load
from course.render.words import num_han, num_words, prose

URL = re.compile(r"\]\((https?://[^)\s]+)\)")
LINE_RANGE = re.compile(r"\b(\d{2,4})–(\d{2,4})\b(?! ?%)")
PINNED = {
    ("sgl-project", "9deb6952afa483e38f96385a375b96f463da5303"),
    ("vllm-project", "8e958902eee56ca5158728f1dd5a32246f0246f3"),
}
HINTS = {"en": "Hint {}", "zh": "提示 {}"}
units = pytest.mark.parametrize("unit", UNITS)
formed = pytest.mark.parametrize("unit", FORMED)
languages = pytest.mark.parametrize("lang", LANGUAGES)


@units
def test_both_languages_hold_equal_cells(unit):
    english, chinese = blocks(lesson(unit)), blocks(lesson(unit, "zh"))
    assert [block.label for block in english] == [block.label for block in chinese]
    for one, other in zip(english, chinese, strict=True):
        if isinstance(one, Cell):
            assert one.source == other.source, one.label
            assert one.metadata == other.metadata, one.label
        else:
            assert one.points == other.points, one.label


@units
def test_both_languages_cite_the_same_sources_and_name_the_same_symbols(unit):
    english, chinese = prose(lesson(unit)), prose(lesson(unit, "zh"))
    assert Counter(URL.findall(english)) == Counter(URL.findall(chinese))
    assert Counter(LINE_RANGE.findall(english)) == Counter(LINE_RANGE.findall(chinese))
    spans = [set(re.findall(r"`([^`\n]+)`", text)) for text in (english, chinese)]
    assert spans[0] == spans[1], spans[0] ^ spans[1]


@formed
def test_the_length_is_that_of_one_unit(unit):
    words = num_words(lesson(unit))
    assert 1500 <= words <= 2500, words
    assert num_han(lesson(unit, "zh")) >= words


@units
@languages
def test_every_cited_paper_is_in_the_references(unit, lang):
    references = section(lesson(unit, lang), "References", "参考资料")
    cited = set(re.findall(r"\b\d{4}\.\d{5}\b", prose(lesson(unit, lang))))
    assert cited <= set(re.findall(r"arXiv (\d{4}\.\d{5})", references))


@units
@languages
def test_permalinks_use_the_pinned_commits(unit, lang):
    text = prose(lesson(unit, lang))
    found = re.findall(r"github\.com/([\w-]+)/[\w-]+/(?:blob|tree)/(\w+)", text)
    assert set(found) <= PINNED


def unmapped_ranges(document):
    """Line ranges that no row of the source map has under a name of their line of text."""
    rows, found = load(DEFAULT_MAP).concepts, []
    for line in prose(document).splitlines():
        for first, last in LINE_RANGE.findall(line):
            names = [
                (f"{row.symbol.rsplit('.', 1)[-1]}`", row.path.split("/", 1)[1])
                for row in rows
                if row.lines == (int(first), int(last))
            ]
            if not any(s in line or path.removeprefix("srt/") in line for s, path in names):
                found.append(f"{first}–{last} in: {line}")
    return found


@units
def test_every_line_range_is_in_the_source_map(unit):
    """A line of the text that gives a range names its object, by symbol or by file."""
    assert not unmapped_ranges(lesson(unit))


@pytest.mark.parametrize("path", sorted((ROOT / "course").glob("*.qmd")), ids=lambda p: p.name)
def test_every_line_range_of_a_course_page_is_in_the_source_map(path):
    assert not unmapped_ranges(parse(path))


@units
@languages
def test_bold_closes_where_jupyterlab_sees_it(unit, lang):
    """CommonMark does not close ** between a punctuation mark and a letter or ideograph."""
    for line in prose(lesson(unit, lang)).splitlines():
        pieces = re.sub(r"`[^`]*`", "x", line).split("**")
        for inner, after in zip(pieces[1::2], pieces[2::2], strict=False):
            stuck = re.search(r"[^\w\s]$", inner) and re.match(r"\w", after)
            assert not stuck, f"bold does not close: **{inner}**{after[:10]}"


@units
@languages
def test_three_hints_fold(unit, lang):
    """In Lesson 8, whose two exercises have nothing in common, three behind each."""
    text = prose(lesson(unit, lang))
    titles = re.findall(r'^::: \{\.callout-tip collapse="true" title="([^"]+)"\}', text, re.M)
    times = len(cells(unit, "exercise")) if unit == SEED_UNIT else 1
    assert titles == [HINTS[lang].format(level) for level in (1, 2, 3)] * times


@formed
@languages
def test_the_unit_has_the_lesson_form(unit, lang):
    """Goals, reading route, mechanism, conditions and traps, trade-offs, example, exercise."""
    wanted = {
        "en": ["Goals", "Reading route", "How it works", "Correctness conditions and traps"]
        + ["Trade-offs", "Worked example", "Exercise", "Check", "Questions", "Grading"]
        + ["References"],
        "zh": ["目标", "阅读路线", "工作原理", "正确性条件与陷阱", "权衡", "演示", "练习", "检查"]
        + ["问题", "评分", "参考资料"],
    }
    text = "\n" + prose(lesson(unit, lang))
    headings = re.findall(r"^## (.+)$", text, re.M)
    places = [next((n for n, h in enumerate(headings) if want in h), -1) for want in wanted[lang]]
    assert -1 not in places and places == sorted(places), headings
