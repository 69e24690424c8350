"""Training of EAGLE-3: the unrolled steps are the drafter's, it learns, and it resumes."""

import dataclasses

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.train.eagle3 import load_trainer
from lessons.lib.train.held_out import HeldOut, measure_net
from lessons.lib.train.target_pass import run_target
from lessons.lib.train.unroll import learnt_rows, unroll
from tests.batch_kit import relative_error, tiny_model
from tests.eagle3_kit import TINY, tiny_net, tiny_samples, tiny_trainer, trained_net
from tests.eagle3_reference import Reference, target_features
from tests.engine_models import reference_model

SHORT = dataclasses.replace(TINY, num_tokens=1500)


def uneven_batch(net):
    """Three texts of different lengths, and the target's view of them."""
    samples = [
        dataclasses.replace(sample, token_ids=sample.token_ids[:length])
        for sample, length in zip(tiny_samples(), (18, 12, 15), strict=False)
    ]
    return samples, run_target(tiny_model("llama")[0], samples, net.config.feature_layers)


def test_the_target_pass_is_transformers_on_each_text():
    net = tiny_net()
    model, _ = tiny_model("llama")
    samples, batch = uneven_batch(net)
    for row, sample in enumerate(samples):
        length = len(sample.token_ids)
        assert batch.token_ids[row, :length].tolist() == sample.token_ids
        expected = target_features(sample.token_ids, net.config.feature_layers)
        assert relative_error(batch.features[row, :length], expected) < 2e-5
        with torch.no_grad():
            logits = reference_model("llama")(torch.tensor([sample.token_ids])).logits[0]
        assert relative_error(batch.final[row, :length] @ model.lm_head.T, logits) < 2e-5
        assert not batch.features[row, length:].any()


@pytest.mark.parametrize("chosen", [None, [2, 5, 6, 9]])
def test_unrolled_steps_are_the_drafters(chosen):
    """Every start and step gives the law that the slow reference drafts by behind that text."""
    net = tiny_net()
    model, _ = tiny_model("llama")
    reference = Reference(net.to_tensors(), model.config, model.embedding)
    samples, batch = uneven_batch(net)
    starts = None if chosen is None else torch.tensor(chosen)
    num_compared = 0
    for step, (rows, hidden) in enumerate(unroll(net, model.embedding, batch, 4, starts)):
        if step and chosen:
            assert rows.tolist() == chosen
        found = net.logits(hidden).log_softmax(-1)
        for text, sample in enumerate(samples):
            ids = sample.token_ids
            features = batch.features[text]
            for column, start in enumerate(rows.tolist()):
                if start + 1 + step >= len(ids):
                    continue
                guesses = ids[start + 2 : start + 2 + step]
                expected = reference.log_probs(features[: start + 1], ids[1 : start + 2], guesses)
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
    model, _ = tiny_model("llama")
    batch = run_target(model, tiny_samples()[:32], net.config.feature_layers)
    with torch.no_grad():
        return measure_net(net, model.embedding, [batch], 3)


def test_loss_falls_and_acceptance_rises():
    net, losses = trained_net()
    start = acceptance_of(tiny_trainer().net)
    end = acceptance_of(net)
    assert sum(losses[-8:]) < 0.93 * sum(losses[:8])
    assert end.conditional[0] > start.conditional[0] + 0.15
    assert end.tokens_per_round > start.tokens_per_round + 0.15


def test_held_out_counts_only_what_had_a_chance():
    known = [torch.tensor([[1, 1, 1, 0]]).bool(), torch.tensor([[1, 1, 0, 0]]).bool()]
    hits = [torch.tensor([[1, 0, 1, 1]]).bool(), torch.tensor([[1, 1, 1, 1]]).bool()]
    found = HeldOut.empty(2)
    found.add(hits, known)
    assert found.tried.tolist() == [3, 1] and found.accepted.tolist() == [2, 1]
    assert found.tokens_per_round == pytest.approx(1 + 2 / 3 + 2 / 3)
    assert (found + found).tried.tolist() == [6, 2]


def weights_of(trainer):
    return torch.cat([parameter.detach().flatten() for parameter in trainer.net.parameters()])


def test_a_resumed_run_ends_like_one_in_one_go(tmp_path):
    whole = tiny_trainer(SHORT)
    losses = list(whole.run())
    first = tiny_trainer(SHORT)
    before = list(first.run(until=600))
    first.notes = {"data": "tiny"}
    first.save(tmp_path / "run.pt")
    second = load_trainer(tmp_path / "run.pt", first.model, first.samples)
    assert second.num_seen == first.num_seen < whole.num_seen and second.notes == first.notes
    assert [*before, *second.run()] == losses
    assert torch.equal(weights_of(second), weights_of(whole))


def test_another_seed_gives_another_run():
    other = tiny_trainer(dataclasses.replace(SHORT, seed=1))
    assert list(other.run(until=300)) != list(tiny_trainer(SHORT).run(until=300))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    tiny_trainer(SHORT).save(path)
    with pytest.raises(InputError, match="trained with seed 0, not 1"):
        tiny_trainer(dataclasses.replace(SHORT, seed=1)).resume(path)
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a checkpoint"):
        tiny_trainer(SHORT).resume(path)


def test_the_rate_warms_up_and_falls_to_zero():
    rates = [TINY.rate(seen) for seen in range(0, TINY.num_tokens + 1, 100)]
    assert rates[0] < 0.01 * TINY.learning_rate and rates[-1] == 0
    assert max(rates) == TINY.learning_rate
    assert rates.index(max(rates)) == 5
