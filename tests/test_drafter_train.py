"""Training of standalone, MTP and FROZEN_KV_MTP sees what the drafters see, and measures them."""

import functools
from dataclasses import replace

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.train.recipes import RECIPES
from lessons.lib.train.standalone import kept_layers
from lessons.lib.train.unroll import learnt_rows
from tests.batch_kit import tiny_model
from tests.block_kit import informed
from tests.drafter_kit import KINDS, make_drafter, random_net
from tests.drafter_reference import Target, frozen_logits, mtp_logits
from tests.train_kit import TINY, VOCABULARY, tiny_samples, tiny_texts, tiny_trainer

NUM_STEPS = 3
REFERENCES = {"mtp": mtp_logits, "frozen_kv_mtp": frozen_logits}


def uneven_samples():
    return [
        replace(sample, token_ids=sample.token_ids[:length])
        for sample, length in zip(tiny_samples(), (13, 9, 11), strict=False)
    ]


def recipe_of(kind):
    """With a random network, lively enough that a wrong row would show."""
    model, samples = tiny_model("llama")[0], uneven_samples()
    recipe = RECIPES[kind](model, RECIPES[kind].Settings(), samples)
    recipe.net.load_state_dict(random_net(kind, model).state_dict())
    return recipe, tiny_texts(samples).batch(range(3)), samples


@functools.cache
def target_at(text, start):
    """The target's view of a text up to the token behind the start."""
    model, ids = tiny_model("llama")[0], uneven_samples()[text].token_ids
    return Target(model, ids[: start + 2], "llama")


@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.parametrize("chosen", [None, [2, 5, 6]])
def test_unrolled_steps_are_the_drafters(kind, chosen):
    """Every start and step gives the logits that the slow reference drafts by behind that text."""
    recipe, batch, samples = recipe_of(kind)
    slow, num_compared = REFERENCES[kind], 0
    starts = None if chosen is None else torch.tensor(chosen)
    for step, (rows, hidden) in enumerate(recipe.unroll(batch, NUM_STEPS, starts)):
        if step and chosen:
            assert rows.tolist() == chosen
        found = recipe.logits(hidden).double()
        known = learnt_rows(batch, rows, step)
        for text, sample in enumerate(samples):
            for column in known[text].nonzero()[:, 0].tolist():
                start = int(rows[column])
                target = target_at(text, start)
                guesses = sample.token_ids[start + 2 : start + 2 + step]
                with torch.no_grad():
                    expected = slow(recipe.net, target, guesses)
                torch.testing.assert_close(found[text, column], expected, atol=2e-3, rtol=1e-3)
                num_compared += 1
    assert num_compared > 15


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_measured_is_what_the_drafter_does(kind):
    """From every place of the responses a real proposer drafts; what the text says too counts."""
    own = RECIPES[kind].Settings(num_drawn=VOCABULARY)
    trainer = tiny_trainer(RECIPES[kind], own, replace(TINY, num_tokens=6000))
    list(trainer.run())
    recipe, samples = trainer.recipe, uneven_samples()
    batch, model = tiny_texts(samples).batch(range(3)), tiny_model("llama")[0]
    tried, accepted = [0] * NUM_STEPS, [0] * NUM_STEPS
    for sample in samples:
        ids = sample.token_ids
        for length in range(max(2, sample.prompt_len), len(ids)):
            drafter = informed(make_drafter(kind, recipe.net, None, model), model, ids[:length])
            drafts = drafter.propose(ids[:length], NUM_STEPS).token_ids
            for step, (draft, token) in enumerate(zip(drafts, ids[length:], strict=False)):
                tried[step] += 1
                accepted[step] += draft == token
                if draft != token:
                    break
    found = recipe.measure(batch, NUM_STEPS)
    assert found.tried.tolist() == tried and found.accepted.tolist() == accepted
    assert 0 < accepted[1] < accepted[0] < tried[0]


def test_the_layers_that_stay_are_spread_from_the_first_to_the_last():
    assert [kept_layers(30, n) for n in (1, 2, 3)] == [(0,), (0, 29), (0, 14, 29)]


def test_a_state_that_is_not_kept_is_named():
    with pytest.raises(InputError, match="no state of layer 7: only those of 0, 1, 2, 3"):
        tiny_texts(uneven_samples()).batch(range(2)).features([1, 7])
