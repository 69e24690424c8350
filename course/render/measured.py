"""Sentences whose figures come from a ledger, written into sources between two marks.

`python -m course.render measured` fills them again; a test fails where a source and its ledger
disagree. Without the ledger the sentence says how to make it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lessons.lib.bench.compare_report import path_rows
from lessons.lib.bench.ledger import read_ledger

LEDGER = Path("course/results/compare_cpu.json")
SOURCES = {
    "en": Path("solutions/lesson08/answers.qmd"),
    "zh": Path("solutions/lesson08/answers.zh.qmd"),
}
_REGION = re.compile(r"(<!-- measured: critical paths -->\n).*?(\n<!-- /measured -->)", re.DOTALL)
_DEPTH = 4
_METHODS = {"eagle3": "EAGLE-3", "mtp": "MTP", "dflash": "DFlash"}
_HOW = {
    "en": "**Measured here.** `make compare` counts these passes on this course's engine, and the "
    f"milliseconds they take, into `{LEDGER}`.",
    "zh": "**本课程实测。** `make compare` 在本课程的引擎上统计这些前向次数及其毫秒数，"
    f"写入 `{LEDGER}`。",
}

Json = dict[str, Any]


def fill(root: Path) -> list[Path]:
    """Write the sentences anew; returns the files that changed."""
    changed = []
    for lang, path in SOURCES.items():
        text = (root / path).read_text(encoding="utf-8")
        if (filled := filled_in(text, lang, root)) != text:
            (root / path).write_text(filled, encoding="utf-8")
            changed.append(path)
    return changed


def filled_in(text: str, lang: str, root: Path) -> str:
    """The text with the sentence of today's ledger. ValueError where the marks are missing."""
    ledger = read_ledger(root / LEDGER) if (root / LEDGER).exists() else None
    filled, count = _REGION.subn(
        lambda found: found[1] + critical_paths(ledger, lang) + found[2], text
    )
    if count != 1:
        raise ValueError(f"{SOURCES[lang]}: {count} places for measured critical paths, not one")
    return filled


def critical_paths(ledger: Json | None, lang: str) -> str:
    """Draft passes and ms of a round for the methods of Q1, at one depth."""
    if ledger is None:
        return _HOW[lang]
    rows = {row["method"]: row for row in path_rows(ledger["results"]) if row["depth"] == _DEPTH}
    parts = [_one(name, rows[method], lang) for method, name in _METHODS.items() if method in rows]
    if not parts:
        return _HOW[lang]
    machine, plain_ms = ledger["machine"], next(iter(rows.values()))["plain_ms"]
    where = f"{machine['cpu']}, {machine['num_threads']}"
    if lang == "zh":
        head = f"深度 {_DEPTH}，{where} 个线程，一次普通解码 {plain_ms:.1f} ms："
        return f"{_HOW[lang]}{head}{'；'.join(parts)}。"
    head = f"At depth {_DEPTH}, on {where} threads, with a plain step of {plain_ms:.1f} ms: "
    return f"{_HOW[lang]} {head}{'; '.join(parts)}."


def _one(name: str, row: Json, lang: str) -> str:
    drafts, passes, ms = f"{row['drafts']:.1f}", f"{row['passes']:.1f}", f"{row['draft_ms']:.1f}"
    if lang == "zh":
        return f"{name} 每轮 {drafts} 个草稿用 {passes} 次前向，起草 {ms} ms"
    return f"{name} {passes} passes for {drafts} drafts, {ms} ms of drafting a round"
