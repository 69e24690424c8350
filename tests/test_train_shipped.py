"""The weights that are shipped: whole, light enough, with a card that says what they are."""

import json

import pytest

from lessons.lib.bench.workload import load_prompts
from lessons.lib.draft.eagle3_file import WEIGHTS
from lessons.lib.draft.registry import DRAFTERS, make_proposer, ready_methods
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from lessons.lib.model.weight_cache import is_intact
from lessons.lib.train.engine_card import (
    ENGINE,
    checksum,
    drop_engine_figures,
    engine_part,
    write_engine_figures,
)
from lessons.lib.train.evaluate import Row
from lessons.lib.train.export import per_round
from lessons.lib.train.recipes import RECIPES

FOLDERS = sorted(WEIGHTS.glob("*/"))
METHODS = [method for method in ready_methods() if method in DRAFTERS]


def name_of(folder):
    return folder.name.removesuffix("-smollm2-135m")


def test_all_weights_together_are_light():
    assert FOLDERS and all(name_of(folder) in RECIPES for folder in FOLDERS)
    sizes = [path.stat().st_size for path in WEIGHTS.rglob("*") if path.is_file()]
    assert sum(sizes) < 120e6


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_the_file_is_whole_and_the_card_is_of_this_run(folder):
    assert is_intact(folder / "model.safetensors")
    run = json.loads((folder / "training.json").read_text())
    card = (folder / "card.md").read_text()
    assert run["notes"]["drafter"] == name_of(folder)
    facts = [f"{run['tokens']:,}", run["notes"]["command"], run["notes"]["device"], "Apache-2.0"]
    facts += ["seed 0", "--from-weights", f"| {run['history'][-1]['tokens']:,} |"]
    assert [fact for fact in facts if fact not in card] == []
    assert "/tmp" not in card and "/work" not in card


MEASURED = [folder for folder in FOLDERS if (folder / ENGINE).exists()]


@pytest.mark.parametrize("folder", MEASURED, ids=name_of)
def test_what_the_card_says_of_the_engine_is_of_these_weights(folder):
    figures = json.loads((folder / ENGINE).read_text())
    assert figures["weights"] == checksum(folder)
    assert (folder / "card.md").read_text().endswith(engine_part(folder))
    mine = [row for row in figures["rows"] if row["kind"] == "all"]
    assert [row["name"] for row in mine] == ["bigram", name_of(folder)]


def test_figures_replace_those_before_and_new_weights_drop_them(tmp_path):
    (tmp_path / "card.md").write_text("# A drafter\n\nfacts\n")
    (tmp_path / "model.sha256").write_text("abc\n")
    how = {"command": "eval", "split": "heldout", "num_prompts": 2, "depth": 2}
    how |= {"max_new_tokens": 8, "temperature": 0.0, "dtype": "bfloat16"}
    for rounds in (7, 9):
        row = Row("mtp", "all", rounds, [0.5, None], 1.5)
        write_engine_figures(tmp_path, [row], how)
    card = (tmp_path / "card.md").read_text()
    assert card.startswith("# A drafter\n\nfacts\n") and card.count("## In the engine") == 1
    assert "| mtp | all | 9 | 0.50 - | 1.50 |" in card and "| 7 |" not in card
    drop_engine_figures(tmp_path)
    assert not (tmp_path / ENGINE).exists()


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_a_drafter_knows_more_than_bigrams(folder):
    run = json.loads((folder / "training.json").read_text())
    bigrams, last = run["notes"]["bigram"], run["history"][-1]["conditional"]
    assert set(last) == set(bigrams) == {"all", "chat", "code", "copy", "json", "math"}
    assert per_round(last["all"]) > per_round(bigrams["all"])
    assert per_round(last["all"]) >= per_round(run["history"][0]["conditional"]["all"])


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_it_changes_no_token_and_some_drafts_are_accepted(method):
    model, tokenizer = load_model(dtype="float32", device="cpu")
    engine = Engine(model, tokenizer)
    accepted = 0
    for prompt in load_prompts("heldout", ("maths", "json"))[:3]:
        ids = prompt.token_ids(tokenizer)
        expected = engine.generate(ids, 24).token_ids
        proposer = make_proposer(method, model)
        result = engine.generate(ids, 24, proposer=proposer, depth=4)
        assert result.token_ids == expected
        accepted += sum(r.accepted for r in result.rounds)
    assert accepted >= 4
