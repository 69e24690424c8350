"""Training of EAGLE-3: the unrolled steps are the drafter's, it learns, and it resumes."""

import dataclasses

import pytest
import torch

from lessons.lib.train.eagle3 import Eagle3Recipe
from lessons.lib.train.held_out import HeldOut
from lessons.lib.train.target_pass import collate, run_target
from lessons.lib.train.unroll import learnt_rows, unroll
from tests.batch_kit import relative_error, tiny_model
from tests.eagle3_kit import EAGLE3, eagle3_trainer, tiny_net, trained_net
from tests.eagle3_reference import Reference, target_features
from tests.engine_models import reference_model
from tests.train_kit import VOCABULARY, tiny_samples, tiny_texts


def uneven_batch(net):
    """Three texts of different lengths, and the target's view of them."""
    samples = [
        dataclasses.replace(sample, token_ids=sample.token_ids[:length])
        for sample, length in zip(tiny_samples(), (18, 12, 15), strict=False)
    ]
    layers = net.config.feature_layers
    rows = run_target(tiny_model("llama")[0], samples, layers, VOCABULARY)
    return samples, collate(samples, rows, layers)


def test_the_target_pass_is_transformers_on_each_text():
    net = tiny_net()
    samples, batch = uneven_batch(net)
    features = batch.features(net.config.feature_layers)
    for row, sample in enumerate(samples):
        length = len(sample.token_ids)
        assert batch.token_ids[row, :length].tolist() == sample.token_ids
        expected = target_features(sample.token_ids, net.config.feature_layers)
        assert relative_error(features[row, :length], expected) < 2e-5
        with torch.no_grad():
            logits = reference_model("llama")(torch.tensor([sample.token_ids])).logits[0]
        first = sample.prompt_len - 1
        law = torch.zeros_like(logits).scatter(1, batch.top_ids[row, :length], batch.top_probs[row])
        assert relative_error(law[first:], logits.softmax(-1)[first:]) < 2e-5
        assert not batch.top_probs[row, :first].any()
        assert not features[row, length:].any()


@pytest.mark.parametrize("chosen", [None, [2, 5, 6, 9]])
def test_unrolled_steps_are_the_drafters(chosen):
    """Every start and step gives the law that the slow reference drafts by behind that text."""
    net = tiny_net()
    model, _ = tiny_model("llama")
    reference = Reference(net.to_tensors(), model.config, model.embedding)
    samples, batch = uneven_batch(net)
    starts = None if chosen is None else torch.tensor(chosen)
    num_compared = 0
    features = batch.features(net.config.feature_layers)
    steps = unroll(net, model.embedding, batch, features, 4, starts)
    for step, (rows, hidden) in enumerate(steps):
        if step and chosen:
            assert rows.tolist() == chosen
        found = net.logits(hidden).log_softmax(-1)
        for text, sample in enumerate(samples):
            ids = sample.token_ids
            for column, start in enumerate(rows.tolist()):
                if start + 1 + step >= len(ids):
                    continue
                guesses = ids[start + 2 : start + 2 + step]
                known, tokens = features[text, : start + 1], ids[1 : start + 2]
                expected = reference.log_probs(known, tokens, guesses)
                torch.testing.assert_close(found[text, column], expected, atol=2e-4, rtol=1e-4)
                num_compared += 1
    assert num_compared > 40


def test_rows_that_are_learnt_predict_the_response():
    samples, batch = uneven_batch(tiny_net())
    starts = torch.arange(batch.token_ids.shape[1])
    for step in range(3):
        learnt = learnt_rows(batch, starts, step)
        for text, sample in enumerate(samples):
            for start in starts.tolist():
                predicted, length = start + 2 + step, len(sample.token_ids)
                assert learnt[text, start] == (sample.prompt_len <= predicted <= length)


def acceptance_of(net):
    recipe = Eagle3Recipe(tiny_model("llama")[0], EAGLE3, tiny_samples())
    recipe.net = net
    return recipe.measure(tiny_texts().batch(range(32)), 3)


def test_loss_falls_and_acceptance_rises():
    net, losses = trained_net()
    start = acceptance_of(eagle3_trainer().recipe.net)
    end = acceptance_of(net)
    assert sum(losses[-8:]) < 0.93 * sum(losses[:8])
    assert end.conditional[0] > start.conditional[0] + 0.15
    assert end.tokens_per_round > start.tokens_per_round + 0.15


def test_held_out_counts_only_what_had_a_chance():
    known = [torch.tensor([[1, 1, 1, 0]]).bool(), torch.tensor([[1, 1, 0, 0]]).bool()]
    hits = [torch.tensor([[1, 0, 1, 1]]).bool(), torch.tensor([[1, 1, 1, 1]]).bool()]
    found = HeldOut.of(hits, known)
    assert found.tried.tolist() == [3, 1] and found.accepted.tolist() == [2, 1]
    assert found.tokens_per_round == pytest.approx(1 + 2 / 3 + 2 / 3)
    assert (found + found).tried.tolist() == [6, 2]
