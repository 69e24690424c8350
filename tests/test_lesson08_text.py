"""Lesson 8: both languages hold the same lesson, and its references are complete."""

import re
from pathlib import Path

import pytest

from course.render.qmd import Answer, Cell, Document, Markdown, parse

ROOT = Path(__file__).parents[1]
ENGLISH = ROOT / "lessons/lesson08_modern_speculative_systems.qmd"
CHINESE = ROOT / "lessons/lesson08_modern_speculative_systems.zh.qmd"
BOTH = pytest.mark.parametrize("path", [ENGLISH, CHINESE], ids=["en", "zh"])

LABELS = [
    *("setup", "worked_example", "acceptance_cost_model", "main", "boundary"),
    *(
        "source_objects",
        "source_map",
        "all_checks",
        "load_engine",
        "measure",
        "critical_path",
        "predict",
        "raise_batch",
    ),
    *("live", "run_choice", "q1", "q2", "q3"),
]
URL = re.compile(r"\]\((https?://[^)\s]+)\)")
LINE_RANGE = re.compile(r"\d{2,4}–\d{2,4}")
FOLDED = re.compile(r"(?ms)^::: \{\.callout-tip.*?^:::$")
FIGURE = re.compile(r"\d+(?:\.\d+)?")


def blocks(path: Path) -> list[Cell | Answer]:
    return [block for block in parse(path).blocks if isinstance(block, Cell | Answer)]


def prose(document: Document) -> str:
    """The markdown without diagrams."""
    text = "".join(b.text for b in document.blocks if isinstance(b, Markdown))
    return re.sub(r"(?ms)^```\{mermaid\}.*?^```$", "", text)


def section(path: Path, heading: str) -> str:
    """The text under the first level-2 heading that contains `heading`."""
    found = [part for part in prose(parse(path)).split("\n## ") if heading in part.split("\n")[0]]
    assert found, f"{path.name} has no section {heading!r}"
    return found[0]


@BOTH
def test_the_cells_and_answers_are_the_agreed_ones(path):
    assert [block.label for block in blocks(path)] == LABELS


def test_both_languages_give_the_same_figures():
    concepts = [
        section(path, heading).split("### ")
        for path, heading in ((ENGLISH, "Concepts"), (CHINESE, "核心概念"))
    ]
    for number, texts in enumerate(zip(*concepts, strict=True)):
        decimals = [{n for n in FIGURE.findall(text) if "." in n} for text in texts]
        assert decimals[0] == decimals[1], f"concept {number}"


@pytest.mark.parametrize(
    ("path", "table", "references"),
    [
        (ENGLISH, "What is often said", "References"),
        (CHINESE, "常见说法与来源对照", "参考资料"),
    ],
    ids=["en", "zh"],
)
def test_every_correction_has_a_source_that_the_references_list(path, table, references):
    listed = set(URL.findall(section(path, references)))
    rows = [line for line in section(path, table).splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 12
    for row in rows:
        where = row.rstrip(" |").split(" | ")[-1]
        links = set(URL.findall(row))
        own = "worked example" in where or "具体演示" in where
        assert links or LINE_RANGE.search(where) or own, f"no source: {row}"
        assert links <= listed, f"not in the references: {links - listed}"


@BOTH
def test_permalinks_use_the_full_pinned_commits(path):
    text = path.read_text(encoding="utf-8")
    commits = set(re.findall(r"github\.com/([\w-]+)/[\w-]+/(?:blob|tree)/(\w+)", text))
    assert commits == {
        ("sgl-project", "9deb6952afa483e38f96385a375b96f463da5303"),
        ("vllm-project", "8e958902eee56ca5158728f1dd5a32246f0246f3"),
    }


def test_the_length_is_that_of_one_lesson():
    """But for the folded hints and the advice, which one reads in parts, and only when stuck."""
    advice, text = section(ENGLISH, "When a check does not pass"), prose(parse(ENGLISH))
    hints = " ".join(FOLDED.findall(text))
    english = re.sub(r"\]\([^)]*\)", "]", FOLDED.sub("", text.replace(advice, "")))
    assert len(re.findall(r"\w+", advice)) <= 450 and advice.strip() not in english
    assert 0 < len(re.findall(r"\w+", hints)) <= 300 and "Hint 1" not in english
    assert 2500 <= len(re.findall(r"[A-Za-z0-9][\w.'’–-]*", english)) <= 3800
    han = re.findall(r"[\u4e00-\u9fff]", prose(parse(CHINESE)))
    assert len(han) >= 3000
