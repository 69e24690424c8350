"""Blocks in training are the drafter's own: the same drafts, and nothing seen behind the anchor."""

import dataclasses

import pytest
import torch

from lessons.lib.draft.dflash import DFlashProposer
from lessons.lib.draft.dspark import DSparkProposer
from lessons.lib.train.recipes import RECIPES
from lessons.lib.train.unroll import unroll
from tests.batch_kit import tiny_model
from tests.eagle3_kit import tiny_net
from tests.train_kit import MASK, texts_without_mask, tiny_texts

SETTINGS = {"num_features": 1, "block_size": 4, "mask_token_id": MASK, "num_drawn": 97}
PROPOSERS = {"dflash": DFlashProposer, "dspark": DSparkProposer}
ANCHORS = [5, 9, 16]


def random_recipe(name):
    """Lively weights, so that a wrong position, token or state changes the drafts."""
    torch.manual_seed(3)
    maker = RECIPES[name]
    recipe = maker(tiny_model("llama")[0], maker.Settings(**SETTINGS), texts_without_mask())
    with torch.no_grad():
        for parameter in recipe.net.parameters():
            if parameter.dim() == 2:
                parameter.copy_(torch.randn_like(parameter) * 2 / parameter.shape[-1] ** 0.5)
    return recipe


def batch_and_anchors():
    batch = tiny_texts(texts_without_mask()).batch(range(2))
    return batch, torch.tensor([ANCHORS, ANCHORS])


@pytest.mark.parametrize("name", PROPOSERS)
def test_blocks_are_the_proposers(name):
    recipe, (batch, anchors) = random_recipe(name), batch_and_anchors()
    with torch.no_grad():
        guesses, doubts = recipe.drafts(batch, anchors)
    assert len(guesses.unique()) > 6
    for text in range(2):
        ids = batch.token_ids[text].tolist()
        features = batch.features(recipe.layers)[text]
        for column, anchor in enumerate(ANCHORS):
            proposer = PROPOSERS[name](recipe.net, tiny_model("llama")[0])
            proposer.observe_features(0, features[:anchor], ids[1 : anchor + 1])
            proposal = proposer.propose(ids[: anchor + 1], guesses.shape[2])
            assert proposal.token_ids == guesses[text, column].tolist()
            if doubts is not None:
                expected = doubts[text, column].sigmoid().tolist()
                assert proposal.confidences == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", PROPOSERS)
def test_what_comes_behind_an_anchor_changes_nothing(name):
    recipe, (batch, anchors) = random_recipe(name), batch_and_anchors()
    before = recipe.blocks(batch, anchors)
    first = ANCHORS[0]
    states, tokens = batch.states.clone(), batch.token_ids.clone()
    states[:, first:] += 1  # the anchor's own states are not known when it is drafted behind
    tokens[:, first + 1 :] = 1
    after = recipe.blocks(dataclasses.replace(batch, states=states, token_ids=tokens), anchors)
    torch.testing.assert_close(after[:, 0], before[:, 0])
    assert not torch.allclose(after[:, 1], before[:, 1], atol=1e-2)
    tokens = batch.token_ids.clone()
    tokens[:, first] = 1
    after = recipe.blocks(dataclasses.replace(batch, token_ids=tokens), anchors)
    assert not torch.allclose(after[:, 0], before[:, 0], atol=1e-2)
    torch.testing.assert_close(after[:, 1:], before[:, 1:])


@pytest.mark.parametrize("step", [0, 2])
def test_what_comes_behind_a_start_changes_nothing(step):
    """EAGLE-3: features up to the start, and the tokens that were drafted up to this step."""
    net, batch = tiny_net(), batch_and_anchors()[0]
    layers, start, embedding = net.config.feature_layers, 8, tiny_model("llama")[0].embedding

    def row(batch, features):
        steps = list(unroll(net, embedding, batch, features, step + 1))
        return steps[step][1][:, start]

    before = row(batch, batch.features(layers))
    features, tokens = batch.features(layers).clone(), batch.token_ids.clone()
    features[:, start + 1 :] += 1
    tokens[:, start + 2 + step :] = 1
    torch.testing.assert_close(row(dataclasses.replace(batch, token_ids=tokens), features), before)
    tokens[:, start + 1 + step] = 1
    after = row(dataclasses.replace(batch, token_ids=tokens), features)
    assert not torch.allclose(after, before, atol=1e-2)


def test_temperatures_are_fitted_on_texts_that_are_given():
    recipe = random_recipe("dspark")
    texts = tiny_texts(texts_without_mask())
    recipe.finish([texts.batch(range(start, start + 8)) for start in range(0, 64, 8)])
    temperatures = recipe.net.config.temperatures
    assert len(temperatures) == 4 and any(value != 1 for value in temperatures)


def test_dspark_starts_from_dflash(tmp_path):
    dflash, dspark = random_recipe("dflash"), random_recipe("dspark")
    dflash.save(tmp_path)
    heads = {
        name: value.clone() for name, value in dspark.net.state_dict().items() if "head" in name
    }
    dspark.load(tmp_path)
    found = dspark.net.state_dict()
    for name, value in dflash.net.state_dict().items():
        torch.testing.assert_close(found[name], value.bfloat16().float())
    assert heads and all(torch.equal(found[name], value) for name, value in heads.items())
