"""Texts to train on: what goes in, what must stay out, in which order; and the bigram control."""

import itertools
import json

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
from lessons.lib.train.text import library_samples
from tests.batch_kit import tiny_engine
from tests.eagle3_kit import tiny_samples
from tests.engine_models import reference_model, write_folder

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
    samples = [Sample([i, i], 1, "a") for i in range(100)]
    train, held_out = split_held_out(samples)
    assert [s.token_ids[0] for s in held_out] == [0, 24, 48, 72, 96]
    assert sorted(s.token_ids[0] for s in train + held_out) == list(range(100))


def test_the_draft_vocabulary_is_what_responses_use_most():
    assert frequent_ids(TEXTS, 2, 10).tolist() == [2, 3]
    assert frequent_ids(TEXTS, 5, 10).tolist() == [0, 1, 2, 3, 4]


def test_an_epoch_has_every_text_once_and_a_seed_one_order():
    samples = [Sample(list(range(i % 7 + 1)) + [i], 1, "a") for i in range(50)]
    order = list(itertools.islice(batches(samples, 4, seed=3), 26))
    assert order == list(itertools.islice(batches(samples, 4, seed=3), 26))
    assert order != list(itertools.islice(batches(samples, 4, seed=4), 26))
    epoch = sorted(s.token_ids[-1] for batch in order[:13] for s in batch)
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


def test_from_texts_to_a_measured_drafter(tiny_folder, tmp_path, capsys):
    """data, eagle3 (in two goes), export and eval as a user types them."""
    data, checkpoint, out = tmp_path / "t.npz", tmp_path / "c.pt", tmp_path / "drafter"
    common = ["--model", str(tiny_folder), "--dtype", "float32", "--device", "cpu"]
    common += ["--threads", "1"]
    raw = tmp_path / "raw.npz"
    write_samples(tiny_samples(), raw)
    assert main(["data", "--from", str(raw), "--out", str(data), *common]) == 0
    for tokens in ("500", "1000"):
        command = ["eagle3", "--data", str(data), "--checkpoint", str(checkpoint), *common]
        sizes = ["--draft-vocab", "80", "--every", "500", "--tokens", tokens]
        assert main([*command, *sizes]) == 0
    paths = ["--data", str(data)]
    places = ["--checkpoint", str(checkpoint), "--out", str(out)]
    assert main(["export", *places, *paths, *common]) == 0
    card = (out / "card.md").read_text()
    assert "bigram control | all" in card and "this drafter | tiny" in card
    assert json.loads((out / "config.json").read_text())["draft_vocab_size"] == 80
    limits = ["--limit", "1", "--max-new-tokens", "6"]
    assert main(["eval", "--weights", str(out), *paths, *limits, *common]) == 0
    printed = capsys.readouterr().out
    assert printed.count("bigram control:") == 1  # the second go resumed
    assert "eagle3   all" in printed and "bigram   chat" in printed


def test_user_errors_are_one_line(tmp_path, capsys):
    assert main(["eagle3", "--data", str(tmp_path / "none.npz")]) == 2
    assert main(["eval", "--weights", str(tmp_path / "none")]) == 2
    assert main(["eagle3", "--tokens", "many"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert [line.startswith("error: ") for line in lines] == [True] * 3
    assert "lessons.lib.train eagle3" in lines[1]
