"""Figures in prose are those of the ledger they cite."""

import json
from pathlib import Path

import pytest

from course.render import measured

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("lang", measured.SOURCES)
def test_the_sources_say_what_the_ledger_says(lang):
    text = (ROOT / measured.SOURCES[lang]).read_text(encoding="utf-8")
    assert measured.filled_in(text, lang, ROOT) == text, "run python -m course.render measured"


def ledger(passes=40, drafts=40, draft_ms=6.0):
    def row(method, depth, kind, phases, counts):
        name = "baseline" if method == "none" else f"{method}-{depth}"
        row = {"stage": "depths", "category": kind, "method": method, "depth": depth, "name": name}
        return row | {"phase_ms": phases, "draft_passes": counts}

    rows = []
    for kind in ("json", "chat"):
        plain = {"draft": 0.0, "total": 25.0}
        rows.append(row("none", 0, kind, plain, {"passes": 0, "rounds": 0, "drafts": 0}))
        counts = {"passes": passes, "rounds": 10, "drafts": drafts}
        rows.append(row("mtp", 4, kind, {"draft": draft_ms, "total": 32.0}, counts))
    return {"results": rows, "machine": {"cpu": "a processor", "num_threads": 2}}


def test_figures_are_those_of_the_rows():
    told = measured.critical_paths(ledger(), "en")
    assert "a processor, 2 threads, with a plain step of 25.0 ms" in told
    assert told.endswith("MTP 4.0 passes for 4.0 drafts, 6.0 ms of drafting a round.")
    assert "MTP 每轮 4.0 个草稿用 1.0 次前向，起草 9.5 ms" in measured.critical_paths(
        ledger(passes=10, draft_ms=9.5), "zh"
    )


@pytest.mark.parametrize("lang", measured.SOURCES)
def test_without_a_ledger_the_sentence_says_how_to_make_one(lang):
    told = measured.critical_paths(None, lang)
    assert "make compare" in told and "compare_cpu.json" in told and " ms" not in told


def test_filling_changes_the_sentence_alone(tmp_path):
    for path in measured.SOURCES.values():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(
            "before\n<!-- measured: critical paths -->\nold\n<!-- /measured -->\nbehind\n"
        )
    results = tmp_path / measured.LEDGER
    results.parent.mkdir(parents=True)
    head = dict.fromkeys(("created", "command", "settings", "versions", "commit"))
    results.write_text(json.dumps({"schema": "specdec-ledger/1", **head, **ledger()}))
    assert measured.fill(tmp_path) == list(measured.SOURCES.values())
    text = (tmp_path / measured.SOURCES["en"]).read_text()
    assert text.startswith("before\n") and text.endswith("-->\nbehind\n")
    assert "old" not in text and "6.0 ms" in text
    assert measured.fill(tmp_path) == []
    (tmp_path / measured.SOURCES["zh"]).write_text("no marks")
    with pytest.raises(ValueError, match="0 places"):
        measured.fill(tmp_path)
