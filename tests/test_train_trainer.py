"""Every recipe: it learns, resumes like one run in one go, and knows its own checkpoints."""

import dataclasses

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.train.recipes import RECIPES
from tests.train_kit import MASK, TINY, texts_without_mask, tiny_texts, tiny_trainer

BLOCKS = {"num_features": 1, "block_size": 4, "mask_token_id": MASK, "num_drawn": 97}
OWN = {
    "eagle3": {"draft_vocab_size": 97, "num_unrolled": 3, "num_drawn": 97},
    "standalone": {"num_drawn": 97},
    "mtp": {"num_unrolled": 3, "num_drawn": 97},
    "frozen_kv_mtp": {"num_unrolled": 3, "num_drawn": 97},
    "dflash": BLOCKS,
    "dspark": BLOCKS | {"markov_rank": 8},
}
SHORT = dataclasses.replace(TINY, num_tokens=1500)
NAMES = list(RECIPES)


def own_settings(name):
    return RECIPES[name].Settings(**OWN[name])


def trainer_of(name, settings=TINY):
    return tiny_trainer(RECIPES[name], own_settings(name), settings, texts_without_mask())


def weights_of(trainer):
    parameters = trainer.recipe.net.parameters()
    return torch.cat([parameter.detach().flatten() for parameter in parameters])


def test_every_recipe_is_tested():
    assert set(OWN) == set(RECIPES)


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_ends_like_one_in_one_go(name, tmp_path):
    whole = trainer_of(name, SHORT)
    losses = list(whole.run())
    first = trainer_of(name, SHORT)
    before = list(first.run(until=600))
    first.notes = {"data": "tiny"}
    first.save(tmp_path / "run.pt")
    second = trainer_of(name, SHORT)
    second.resume(tmp_path / "run.pt")
    assert second.num_seen == first.num_seen < whole.num_seen and second.notes == first.notes
    assert [*before, *second.run()] == losses
    assert torch.equal(weights_of(second), weights_of(whole))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_acceptance_rises(name):
    batch = tiny_texts(texts_without_mask()).batch(range(32))
    start = trainer_of(name).recipe.measure(batch, 3)
    trainer = trainer_of(name)
    list(trainer.run())
    end = trainer.recipe.measure(batch, 3)
    assert end.conditional[0] > start.conditional[0] + 0.1
    assert end.tokens_per_round > start.tokens_per_round + 0.1


def test_another_seed_gives_another_run():
    other = trainer_of("eagle3", dataclasses.replace(SHORT, seed=1))
    assert list(other.run(until=300)) != list(trainer_of("eagle3", SHORT).run(until=300))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    trainer_of("eagle3", SHORT).save(path)
    with pytest.raises(InputError, match="trained with seed 0, not 1"):
        trainer_of("eagle3", dataclasses.replace(SHORT, seed=1)).resume(path)
    with pytest.raises(InputError, match="trained with drafter eagle3, not dflash"):
        trainer_of("dflash", SHORT).resume(path)
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a checkpoint"):
        trainer_of("eagle3", SHORT).resume(path)


def test_the_rate_warms_up_and_falls_to_zero():
    rates = [TINY.rate(seen) for seen in range(0, TINY.num_tokens + 1, 100)]
    assert rates[0] < 0.01 * TINY.learning_rate and rates[-1] == 0
    assert max(rates) == TINY.learning_rate
    assert rates.index(max(rates)) == 5
