"""Prompts drawn for training, and the target's answers to them."""

import collections

import pytest

from kernels.runtime import InputError
from lessons.lib.bench.workload import KINDS, SPLITS, load_prompts
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from lessons.lib.train import generate as generate_module
from lessons.lib.train.data import Sample, read_samples, without_overlap, write_samples
from lessons.lib.train.generate import generate
from lessons.lib.train.prompts import draw_prompt


def test_kinds_take_turns_and_every_template_fills():
    drawn = [draw_prompt(7, index) for index in range(600)]
    assert [kind for kind, _ in drawn[:5]] == list(KINDS)
    assert not any("{" in text.split("\n\n")[0] for kind, text in drawn if kind != "copy")
    assert len({text for _, text in drawn}) > 560
    assert drawn[:9] == [draw_prompt(7, index) for index in range(9)]
    assert drawn[:9] != [draw_prompt(8, index) for index in range(9)]
    words = collections.Counter(text.split()[0] for _, text in drawn)
    assert len(words) > 40


def test_no_prompt_of_compare_is_among_them():
    _, tokenizer = load_model()
    drawn = [Sample(tokenizer.encode(draw_prompt(7, i)[1]), 1, "any") for i in range(600)]
    prompts = [tokenizer.encode(p.text) for split in SPLITS for p in load_prompts(split)]
    assert len(without_overlap(drawn, prompts)) >= 595  # and these few are dropped when read


@pytest.fixture(scope="module")
def engine():
    return Engine(*load_model(), max_running=8)


def test_answers_are_the_targets_and_resumed_ones_the_same(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(generate_module, "_CHUNK", 2)
    whole, parts = tmp_path / "whole.npz", tmp_path / "parts.npz"
    samples = generate(engine, 5, 3, whole, max_new_tokens=3)
    assert samples == read_samples(whole) and [s.kind for s in samples] == list(KINDS)
    generate(engine, 2, 3, parts, max_new_tokens=3)
    assert len(read_samples(parts)) == 2
    generate(engine, 5, 3, parts, max_new_tokens=3)
    assert [s.prompt_len for s in read_samples(parts)] == [s.prompt_len for s in samples]
    prompt = samples[0].token_ids[: samples[0].prompt_len]
    assert "assistant" in engine.tokenizer.decode(prompt)
    alone = engine.generate(prompt, 3).token_ids
    assert samples[0].token_ids[len(prompt) :][:1] == alone[:1]
    assert all(1 <= s.num_response <= 3 for s in samples)


def test_a_file_of_another_seed_is_refused(engine, tmp_path):
    path = tmp_path / "other.npz"
    write_samples([Sample([1, 2, 3], 2, "maths")], path)
    with pytest.raises(InputError, match="other.npz: was begun with another seed"):
        generate(engine, 2, 3, path)
