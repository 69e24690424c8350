"""The methods by name: a clear word where no weights are, the shipped network where they are."""

from dataclasses import replace

import pytest

from kernels.runtime import InputError
from lessons.lib.draft import registry
from lessons.lib.draft.dflash import save_dflash
from lessons.lib.draft.dspark import save_dspark
from lessons.lib.draft.registry import DRAFTERS, fits, make_proposer, method_names, ready_methods
from lessons.lib.engine import Engine
from tests.batch_kit import random_ids, tiny_model
from tests.block_kit import block_net
from tests.engine_models import smollm

SAVE = {"dflash": save_dflash, "dspark": save_dspark}


@pytest.fixture
def path_of(tmp_path, monkeypatch):
    """Where the shipped weights of a method would lie."""
    drafters = {
        method: replace(drafter, shipped=tmp_path / method)
        for method, drafter in registry.DRAFTERS.items()
    }
    monkeypatch.setattr(registry, "DRAFTERS", drafters)
    monkeypatch.setattr(registry, "_networks", {})
    return lambda method: tmp_path / method / "model.safetensors"


@pytest.mark.parametrize("method", registry.DRAFTERS)
def test_without_weights_the_method_is_known_but_not_ready(method, path_of):
    with pytest.raises(InputError, match=f"no weights for {method}: .* --draft PATH"):
        make_proposer(method, tiny_model()[0])
    assert method in method_names() and method not in ready_methods()


@pytest.mark.parametrize("method", SAVE)
def test_with_weights_it_drafts_and_reads_the_file_once(method, path_of):
    model, tokenizer = tiny_model()
    SAVE[method](block_net(method, model.config), path_of(method))
    prompt = random_ids(12, seed=0)
    expected = Engine(model, tokenizer).generate(prompt, 8, ignore_eos=True)
    proposer = make_proposer(method, model)
    result = Engine(model, tokenizer).generate(
        prompt, 8, proposer=proposer, depth=3, ignore_eos=True
    )
    assert result.token_ids == expected.token_ids
    assert [r.proposed for r in result.rounds][0] == 3
    assert method in ready_methods()
    path_of(method).unlink()
    assert make_proposer(method, model)._net is proposer._net


def test_a_damaged_file_is_refused(path_of):
    model, _ = tiny_model()
    save_dflash(block_net("dflash", model.config), path_of("dflash"))
    with path_of("dflash").open("ab") as file:
        file.write(b"0")
    with pytest.raises(InputError, match="does not match its .sha256"):
        make_proposer("dflash", model)


def test_weights_are_read_from_where_one_says(path_of, tmp_path):
    model, _ = tiny_model()
    elsewhere = tmp_path / "mine.safetensors"
    save_dflash(block_net("dflash", model.config, seed=1), elsewhere)
    proposer = make_proposer("dflash", model, weights=elsewhere)
    assert make_proposer("dflash", model, weights=elsewhere)._net is proposer._net
    with pytest.raises(InputError, match="no weights for dflash: .*/nothing"):
        make_proposer("dflash", model, weights=tmp_path / "nothing")
    with pytest.raises(InputError, match="'ngram' reads no weights"):
        make_proposer("ngram", weights=elsewhere)


def test_shipped_weights_fit_the_model_that_they_were_made_for_and_no_other():
    tiny = tiny_model()[0]
    assert fits("ngram", tiny) and fits("none", tiny)
    default = smollm("bfloat16").model
    for method in DRAFTERS:
        assert fits(method, default) and not fits(method, tiny)
    with pytest.raises(InputError, match="unknown method"):
        fits("oracle", tiny)
