"""What Lesson 8 says about released source is what the source map records (and checks)."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from course.render.qmd import Cell, Markdown, parse
from lessons.lib.checks.source_names import ANSWER_KEYS

ROOT = Path(__file__).parents[1]
LESSON = ROOT / "lessons/lesson08_modern_speculative_systems.qmd"
ROWS: list[dict[str, Any]] = yaml.safe_load(
    (ROOT / "course/source_map.yml").read_text(encoding="utf-8")
)["concepts"]
TEXT = "".join(block.text for block in parse(LESSON).blocks if isinstance(block, Markdown))
RANGE = re.compile(r"\b(\d{2,4})–(\d{2,4})\b(?! ?%)")


@pytest.mark.parametrize("first", [1544, 1717, 1920])
def test_the_stages_of_the_dflash_round_start_where_station_3_says(first):
    assert f"({first})" in TEXT
    symbols = {row["symbol"] for row in ROWS if row["lines"][0] == first}
    assert "DFlashWorkerV2.forward_batch_generation" in symbols


def answers(suffix: str) -> dict[str, str]:
    solution = parse(ROOT / f"solutions/lesson08/answers{suffix}.qmd")
    cell = next(c for c in solution.cells if c.label == "source_objects")
    namespace: dict[str, Any] = {}
    exec(cell.source, namespace)
    return namespace["source_objects"]


@pytest.mark.parametrize("suffix", ["", ".zh"])
def test_the_reference_answers_are_right_by_the_map(suffix):
    for key, symbol in answers(suffix).items():
        keys = {k for row in ROWS if row["symbol"] == symbol for k in row.get("answers_for", [])}
        assert key in keys, f"{symbol} does not answer {key}"


def test_the_exercise_asks_for_the_keys_the_map_can_answer():
    cells = [block for block in parse(LESSON).blocks if isinstance(block, Cell)]
    (blank,) = [cell.source for cell in cells if cell.label == "source_objects"]
    expected = {key for row in ROWS for key in row.get("answers_for", [])}
    assert set(re.findall(r'"(\w+)":', blank)) == expected == set(answers(""))
    assert set(ANSWER_KEYS) == expected


def test_every_place_to_look_leads_to_a_right_answer():
    """Each file that the table of the mapping exercise names holds an answer for its key."""
    table = [line for line in TEXT.splitlines() if re.match(r"\| `(\w+)` \|", line)]
    assert len(table) == 6
    for line in table:
        key = line.split("`")[1]
        good = {row["path"] for row in ROWS if key in row.get("answers_for", [])}
        for name in re.findall(r"`([\w/*.]+\.py)`", line):
            pattern = re.compile(re.escape(name).replace(r"\*", r"\w*") + "$")
            assert any(pattern.search(path) for path in good), f"{key}: nothing in {name}"
