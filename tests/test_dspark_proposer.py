"""DSpark's proposer: its serial steps against a slow computation, and what each may depend on."""

from dataclasses import replace

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.dspark import DSparkProposer, load_dspark, save_dspark
from tests.batch_kit import random_ids, tiny_model
from tests.block_kit import (
    BLOCK,
    block_net,
    block_proposer,
    informed,
    slow_steps,
    target_features,
)

TEMPERATURES = (1.0, 0.5, 2.0, 1.5, 3.0)


class Scripted:
    """Dice that draw the tokens they are told, and remember what was asked of them."""

    def __init__(self, token_ids):
        self.token_ids, self.positions = list(token_ids), []

    def draw(self, probs, position):
        self.positions.append(position)
        return self.token_ids.pop(0)


@pytest.mark.parametrize("count", [1, BLOCK, BLOCK + 3])
def test_laws_and_confidences_are_the_slow_ones(count):
    """The anchor's row predicts the first draft; every law is that after the draft before it."""
    model, _ = tiny_model()
    ids, sampling = random_ids(13, seed=1), SamplingParams(0.7, seed=5)
    proposer = block_proposer("dspark", sampling, temperatures=TEMPERATURES)
    proposal = informed(proposer, model, ids).propose(ids, count)
    assert len(proposal.token_ids) == min(count, BLOCK)
    net = block_net("dspark", model.config)
    laws, confidences = slow_steps(
        net,
        model,
        target_features(model, ids[:-1]),
        ids,
        proposal.token_ids,
        sampling,
        TEMPERATURES,
    )
    torch.testing.assert_close(proposal.draft_probs, laws[:count], rtol=1e-3, atol=1e-5)
    assert proposal.confidences == pytest.approx(confidences[:count], rel=1e-4)
    assert count == 1 or max(confidences) - min(confidences) > 0.1


@pytest.mark.parametrize("kind", ["gated", "rnn"])
def test_the_other_markov_heads_are_the_slow_ones_and_look_at_the_row(kind):
    model, _ = tiny_model()
    ids, sampling = random_ids(13, seed=1), SamplingParams(0.7, seed=5)
    changes = dict(markov_head_type=kind, markov_rank=8)
    proposal = informed(block_proposer("dspark", sampling, **changes), model, ids).propose(ids, 9)
    net, features = block_net("dspark", model.config, **changes), target_features(model, ids[:-1])
    drafts = proposal.token_ids
    laws, confidences = slow_steps(net, model, features, ids, drafts, sampling)
    torch.testing.assert_close(proposal.draft_probs, laws, rtol=1e-3, atol=1e-5)
    assert proposal.confidences == pytest.approx(confidences, rel=1e-4)
    plain, _ = slow_steps(net, model, features, ids, drafts, sampling, kind="vanilla")
    assert (plain - laws).abs().sum(-1).min() > 0.01


def test_only_the_recurrent_head_remembers_more_than_one_token():
    model, _ = tiny_model()
    ids, sampling = random_ids(13, seed=1), SamplingParams(1.0)
    for kind, remembers in (("vanilla", False), ("gated", False), ("rnn", True)):
        proposer = block_proposer("dspark", sampling, markov_head_type=kind, markov_rank=8)
        informed(proposer, model, ids)
        laws = []
        for first in (1, 50):
            proposer._random = Scripted([first, 2, 3, 4, 5])
            laws.append(proposer.propose(ids, BLOCK).draft_probs)
        assert torch.equal(laws[0][0], laws[1][0]) and not torch.equal(laws[0][1], laws[1][1])
        assert torch.equal(laws[0][2:], laws[1][2:]) != remembers


@pytest.mark.parametrize(
    "changes", [dict(enable_confidence_head=False), dict(confidence_head_with_markov=False)]
)
def test_a_confidence_head_may_be_missing_or_see_the_row_alone(changes):
    model, _ = tiny_model()
    ids, sampling = random_ids(13, seed=2), SamplingParams(1.0)
    proposer = informed(block_proposer("dspark", sampling, **changes), model, ids)
    found, net = proposer.propose(ids, BLOCK), block_net("dspark", model.config, **changes)
    features = target_features(model, ids[:-1])
    laws, confidences = slow_steps(net, model, features, ids, found.token_ids, sampling)
    torch.testing.assert_close(found.draft_probs, laws, rtol=1e-3, atol=1e-5)
    assert found.confidences == (pytest.approx(confidences, rel=1e-4) if confidences else None)


def test_a_greedy_proposal_follows_its_own_argmax():
    model, _ = tiny_model()
    ids = random_ids(13, seed=2)
    proposal = informed(block_proposer("dspark"), model, ids).propose(ids, BLOCK)
    net = block_net("dspark", model.config)
    laws, _ = slow_steps(
        net, model, target_features(model, ids[:-1]), ids, proposal.token_ids, SamplingParams()
    )
    assert proposal.token_ids == laws.argmax(-1).tolist() and proposal.draft_probs is None
    blind = slow_steps(
        net, model, target_features(model, ids[:-1]), ids, [ids[-1]] * BLOCK, SamplingParams()
    )[0]
    assert proposal.token_ids != blind.argmax(-1).tolist()


def test_what_is_known_of_a_draft_does_not_depend_on_it_or_on_later_ones():
    """Law and confidence of draft k look at drafts before k: the admission rule rests on this."""
    model, _ = tiny_model()
    ids, sampling = random_ids(13, seed=3), SamplingParams(1.0)
    proposer = informed(block_proposer("dspark", sampling), model, ids)

    def scripted(tokens):
        proposer._random = Scripted(tokens)
        return proposer.propose(ids, BLOCK)

    first = scripted([1, 2, 3, 4, 5])
    for place in range(BLOCK):
        drafts = [1, 2, 3, 4, 5]
        drafts[place] = 50
        other = scripted(drafts)
        assert other.confidences[: place + 1] == first.confidences[: place + 1]
        assert torch.equal(other.draft_probs[: place + 1], first.draft_probs[: place + 1])
        if place + 1 < BLOCK:
            assert other.confidences[place + 1] != first.confidences[place + 1]
            assert not torch.equal(other.draft_probs[place + 1], first.draft_probs[place + 1])


def test_no_random_number_draws_twice():
    """A place drafted again gets new numbers, or old confidences would tell of new drafts."""
    model, _ = tiny_model()
    text, sampling = random_ids(30, seed=4), SamplingParams(1.0)
    proposer, dice = block_proposer("dspark", sampling), Scripted([7] * 100)
    proposer._random = dice
    for length in (10, 11, 13, 14):
        informed(proposer, model, text[:length]).propose(text[:length], BLOCK)
    assert len(set(dice.positions)) == len(dice.positions) == 4 * BLOCK


def test_a_saved_network_comes_back_with_its_temperatures(tmp_path):
    model, _ = tiny_model()
    net = block_net("dspark", model.config, temperatures=TEMPERATURES)
    save_dspark(net, tmp_path / "dspark.safetensors")
    loaded = load_dspark(tmp_path / "dspark.safetensors", model)
    assert loaded.config == net.config and loaded.fc.weight.dtype == torch.float32
    for name, tensor in net.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor.bfloat16().float()), name
    ids = random_ids(13, seed=5)
    proposer = informed(DSparkProposer(loaded, model), model, ids)
    assert len(proposer.propose(ids, BLOCK).confidences) == BLOCK


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(markov_rank=0), "markov_rank"),
        (dict(markov_head_type="lstm"), "markov_head_type 'lstm' is unknown"),
        (dict(temperatures=(1.0,)), "1 temperatures for 5 drafts"),
        (dict(temperatures=(1.0, 1.0, 0.0, 1.0, 1.0)), "temperatures must be above 0"),
    ],
)
def test_an_impossible_config_is_refused(changes, message):
    config = block_net("dspark", tiny_model()[0].config).config
    with pytest.raises(InputError, match=message):
        replace(config, **changes)
