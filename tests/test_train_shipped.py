"""The weights that are shipped: whole, light enough, with a card that says what they are."""

import json

import pytest

from lessons.lib.bench.workload import load_prompts
from lessons.lib.draft.eagle3_file import WEIGHTS
from lessons.lib.draft.registry import DRAFTERS, make_proposer, ready_methods
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from lessons.lib.model.weight_cache import is_intact
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
