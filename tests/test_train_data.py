"""Texts to train on: what goes in, what must stay out, in which order; and the bigram control."""

import itertools

import numpy as np
import pytest

from kernels.runtime import InputError
from lessons.lib.bench.workload import SPLITS, load_prompts
from lessons.lib.model.loader import load_model
from lessons.lib.train.bigram import BigramProposer, bigram_table
from lessons.lib.train.cli import main
from lessons.lib.train.data import (
    SELFGEN,
    Sample,
    batches,
    frequent_ids,
    read_samples,
    split_held_out,
    without_overlap,
    write_samples,
)
from lessons.lib.train.recipes import RECIPES
from lessons.lib.train.text import library_samples
from lessons.lib.train.trainer import read_checkpoint
from tests.batch_kit import tiny_engine
from tests.engine_models import reference_model, write_folder
from tests.train_kit import texts_without_mask, tiny_samples

TEXTS = [
    Sample([1, 2, 3, 4, 2, 3], 2, "a"),
    Sample([5, 2, 3], 1, "b"),
    Sample([7, 2, 4], 1, "b"),
]


def test_a_token_file_gives_back_what_was_written(tmp_path):
    write_samples(TEXTS, tmp_path / "new" / "tokens.npz")
    assert read_samples(tmp_path / "new" / "tokens.npz") == TEXTS


@pytest.mark.parametrize("content", [b"", b"PK nothing"])
def test_what_is_no_token_file_is_named(tmp_path, content):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="bad.npz: not a token file"):
        read_samples(path)
    np.savez(path, prompt_ids=np.zeros(1))
    with pytest.raises(InputError, match="not a token file"):
        read_samples(path)


def test_the_shipped_texts_share_nothing_with_the_prompts_of_compare():
    _, tokenizer = load_model()
    samples = read_samples(SELFGEN)
    assert len(samples) == 4480 and sum(s.num_response for s in samples) == 543_881
    prompts = [tokenizer.encode(p.text) for split in SPLITS for p in load_prompts(split)]
    assert len(without_overlap(samples, prompts)) == len(samples)
    quoted = [samples[0], Sample([*samples[1].token_ids, *prompts[3]], 4, "copy")]
    assert without_overlap(quoted, prompts) == [samples[0]]


def test_overlap_is_a_run_of_tokens_anywhere():
    assert without_overlap(TEXTS, [[9, 2, 3, 4, 9]], length=3) == TEXTS[1:]
    assert without_overlap(TEXTS, [[2, 4, 3]], length=3) == TEXTS


def test_held_out_texts_are_one_in_24_and_never_trained_on():
    train, held_out = split_held_out(100)
    assert held_out == [0, 24, 48, 72, 96]
    assert sorted(train + held_out) == list(range(100))


def test_the_draft_vocabulary_is_what_responses_use_most():
    assert frequent_ids(TEXTS, 2, 10).tolist() == [2, 3]
    assert frequent_ids(TEXTS, 5, 10).tolist() == [0, 1, 2, 3, 4]


def test_an_epoch_has_every_text_once_and_a_seed_one_order():
    samples = [Sample(list(range(i % 7 + 1)) + [i], 1, "a") for i in range(50)]
    order = list(itertools.islice(batches(samples, 4, seed=3), 26))
    assert order == list(itertools.islice(batches(samples, 4, seed=3), 26))
    assert order != list(itertools.islice(batches(samples, 4, seed=4), 26))
    epoch = sorted(index for batch in order[:13] for index in batch)
    assert epoch == list(range(50))
    assert order[:13] != order[13:]


def test_bigrams_follow_the_responses():
    table = bigram_table(TEXTS, 10)
    assert table[2] == 3 and table[3] == 4 and table[4] == 2  # 2 is followed by 3 more often
    assert table[1] == 1 and table[9] == 9  # never seen before a response token
    assert BigramProposer(table).propose([9, 4], 3).token_ids == [2, 3, 4]


def test_bigrams_change_no_token():
    sample = tiny_samples()[0]
    proposer = BigramProposer(bigram_table(tiny_samples(), 97))
    prompt = sample.token_ids[: sample.prompt_len]
    expected = tiny_engine().generate(prompt, 12, ignore_eos=True).token_ids
    found = tiny_engine().generate(prompt, 12, proposer=proposer, depth=3, ignore_eos=True)
    assert found.token_ids == expected


def test_the_library_gives_docstrings_and_code():
    _, tokenizer = load_model()
    samples = library_samples(tokenizer, 4000)
    counts = {
        kind: sum(s.num_response for s in samples if s.kind == kind) for kind in ("text", "source")
    }
    assert min(counts.values()) >= 2000
    source = next(s for s in samples if s.kind == "source")
    assert "import" in tokenizer.decode(source.token_ids)


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory):
    return write_folder(reference_model("llama"), tmp_path_factory.mktemp("tiny"))


SIZES = dict.fromkeys(RECIPES, []) | {
    "eagle3": ["--draft-vocab-size", "80"],
    "dflash": ["--num-features", "1", "--block-size", "4", "--mask-token-id", "96"],
}
SIZES["dspark"] = [*SIZES["dflash"], "--markov-rank", "4"]


@pytest.fixture(scope="module")
def tokens_without_mask(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "raw.npz"
    write_samples(texts_without_mask() * 6, path)
    return path


@pytest.mark.parametrize("name", RECIPES)
def test_from_texts_to_a_measured_drafter(name, tiny_folder, tokens_without_mask, tmp_path, capsys):
    """data, states, training in two goes, export, training from it, and eval, as a user types
    them."""
    data, checkpoint, out = tmp_path / "t.npz", tmp_path / "c.pt", tmp_path / f"{name}-smollm2-135m"
    dtype = "bfloat16" if name == "dspark" else "float32"  # training mixes precisions in bfloat16
    common = ["--model", str(tiny_folder), "--dtype", dtype, "--device", "cpu"]
    common += ["--threads", "1"]
    assert main(["data", "--from", str(tokens_without_mask), "--out", str(data), *common]) == 0
    texts = ["--data", str(data), "--cache", str(tmp_path / "cache"), *common]
    assert main(["states", *texts]) == 0
    train = [name, "--every", "500", *SIZES[name], *texts]
    for tokens in ("500", "1000"):
        assert main([*train, "--checkpoint", str(checkpoint), "--tokens", tokens]) == 0
    assert main(["export", name, "--checkpoint", str(checkpoint), "--out", str(out), *texts]) == 0
    card = (out / "card.md").read_text()
    assert "bigram control | all" in card and "this drafter | tiny" in card
    again = tmp_path / "again.pt"
    more = ["--checkpoint", str(again), "--from-weights", str(out), "--tokens", "500"]
    assert main([*train, *more]) == 0
    history = read_checkpoint(again)["history"]
    assert len(history) == 3 and history[-1]["tokens"] > history[-2]["tokens"] >= 1000
    limits = ["--limit", "1", "--max-new-tokens", "6", "--data", str(data), *common]
    assert main(["eval", name, "--weights", str(out), *limits]) == 0
    printed = capsys.readouterr().out
    assert printed.count("bigram control:") == 2  # the second go resumed
    assert f"{name:<13} all" in printed and f"{'bigram':<13} chat" in printed


def test_user_errors_are_one_line(tmp_path, capsys):
    assert main(["eagle3", "--data", str(tmp_path / "none.npz")]) == 2
    assert main(["eval", "eagle3", "--weights", str(tmp_path / "none")]) == 2
    assert main(["eval", "eagle4"]) == 2
    assert main(["eagle3", "--tokens", "many"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert [line.startswith("error: ") for line in lines] == [True] * 4
    assert "none" in lines[1] and "unknown method 'eagle4'" in lines[2]
