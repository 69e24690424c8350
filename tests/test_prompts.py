"""The bundled prompts: five kinds, two splits that share nothing, and passages to copy from."""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

from lessons.lib.bench.workload import NUM_DRAWN, load_prompts

PATH = Path(__file__).parents[1] / "lessons/lib/bench/prompts.json"
KINDS = ("maths", "json", "code", "copy", "chat")
SHARED_WORDS = 8
PASSAGE_WORDS = range(80, 201)


def prompts() -> list[dict[str, str]]:
    return json.loads(PATH.read_text(encoding="utf-8"))["prompts"]


def ngrams(text: str, size: int) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}


def test_every_kind_has_eight_main_and_four_heldout_prompts() -> None:
    counts = Counter((p["kind"], p["split"]) for p in prompts())
    assert counts == {(k, s): n for k in KINDS for s, n in (("main", 8), ("heldout", 4))}


def test_prompts_are_complete_and_distinct() -> None:
    rows = prompts()
    assert all(p.keys() == {"kind", "name", "split", "text"} for p in rows)
    assert all(p["text"] == p["text"].strip() and p["text"] for p in rows)
    assert len({p["name"] for p in rows}) == len({p["text"] for p in rows}) == len(rows)


def test_heldout_shares_no_eight_words_in_a_row_with_main() -> None:
    main = [p for p in prompts() if p["split"] == "main"]
    heldout = [p for p in prompts() if p["split"] == "heldout"]
    overlaps = [
        (a["name"], b["name"])
        for a in main
        for b in heldout
        if ngrams(a["text"], SHARED_WORDS) & ngrams(b["text"], SHARED_WORDS)
    ]
    assert overlaps == []


def test_copy_prompts_carry_the_passage_they_ask_for() -> None:
    for prompt in prompts():
        if prompt["kind"] == "copy":
            instruction, passage = prompt["text"].split("\n\n", 1)
            assert len(passage.split()) in PASSAGE_WORDS, prompt["name"]
            assert len(instruction.split()) < 30, prompt["name"]


def test_drawn_prompts_are_enough_distinct_and_the_same_everywhere() -> None:
    drawn = load_prompts("sweep")
    assert Counter(p.kind for p in drawn) == dict.fromkeys(KINDS, NUM_DRAWN)
    texts = [p.text for p in drawn]
    assert len(set(texts)) == len({p.name for p in drawn}) == len(texts)
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    assert digest.startswith("2b64d8b57f9858de"), (
        "other prompts: measured ledgers no longer compare"
    )


def test_drawn_prompts_share_no_eight_words_in_a_row_with_the_written_ones() -> None:
    written = {gram for p in prompts() for gram in ngrams(p["text"], SHARED_WORDS)}
    drawn = load_prompts("sweep")
    assert [p.name for p in drawn if ngrams(p.text, SHARED_WORDS) & written] == []


def test_drawn_copy_prompts_carry_the_passage_they_ask_for() -> None:
    for prompt in load_prompts("sweep", ("copy",)):
        instruction, passage = prompt.text.split("\n\n", 1)
        assert len(passage.split()) in PASSAGE_WORDS, prompt.name
        assert len(instruction.split()) < 30, prompt.name
