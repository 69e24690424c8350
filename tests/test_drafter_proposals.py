"""What standalone, MTP and FROZEN_KV_MTP propose is what slow references propose."""

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.sampling import SeededRandom, logits_to_probs
from tests.batch_kit import random_ids, tiny_engine, tiny_model
from tests.drafter_kit import KINDS, Recorder, make_drafter, random_net
from tests.drafter_reference import Target, frozen_logits, mtp_logits
from tests.engine_models import fresh_logits

PROMPT = random_ids(20, seed=5)


def expected_logits(kind, net, context, guesses, **mistake):
    """Behind the guesses, which follow the context."""
    model, _ = tiny_model()
    if kind == "standalone":
        text = torch.tensor([[*context, *guesses]])
        return fresh_logits(net.to_model(model), text)[0, -1].double()
    slow = {"mtp": mtp_logits, "frozen_kv_mtp": frozen_logits}[kind]
    with torch.no_grad():
        return slow(net, Target(model, context), guesses, **mistake)


def recorded(kind, net, sampling=None, depth=4):
    """(rounds of a run over the tiny target whose prompt comes in chunks, the drafter)"""
    inner = make_drafter(kind, net, sampling)
    text = tiny_engine().generate(PROMPT, 14, ignore_eos=True).token_ids
    drafter = Recorder(inner, None if sampling else [*PROMPT, *text], seed=1)
    result = tiny_engine(token_budget=11).generate(
        PROMPT, 14, sampling, drafter, depth, ignore_eos=True
    )
    assert len(drafter.log) > 3
    return drafter.log, inner, result


def agreeing_rounds(kind, net, rounds, **mistake):
    """Share of the rounds in which the reference guesses the same."""
    same = 0
    for context, count, proposal in rounds:
        guesses = []
        while len(guesses) < count:
            guesses.append(int(expected_logits(kind, net, context, guesses, **mistake).argmax()))
        same += guesses == proposal.token_ids
    return same / len(rounds)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_chains_are_the_references(kind):
    net = random_net(kind)
    rounds, drafter, result = recorded(kind, net)
    assert agreeing_rounds(kind, net, rounds) == 1
    assert len({token for _, _, proposal in rounds for token in proposal.token_ids}) > 5
    assert len({record.accepted for record in result.rounds}) > 2


@pytest.mark.parametrize("mistake", [{"position_shift": 1}, {"kv_layers": (0, 2)}])
def test_a_wrong_position_or_layer_map_would_show(mistake):
    net = random_net("frozen_kv_mtp")
    rounds = recorded("frozen_kv_mtp", net)[0]
    assert agreeing_rounds("frozen_kv_mtp", net, rounds, **mistake) < 0.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("filters", [{}, {"top_k": 5}])
def test_drawn_chains_carry_the_law_they_were_drawn_from(kind, filters):
    net, sampling = random_net(kind), SamplingParams(0.8, seed=3, **filters)
    dice = SeededRandom(3, is_draft=True)
    for context, count, proposal in recorded(kind, net, sampling, depth=3)[0][:4]:
        assert proposal.draft_probs.shape == (count, 97) and len(proposal.token_ids) == count
        for index, law in enumerate(proposal.draft_probs):
            logits = expected_logits(kind, net, context, proposal.token_ids[:index])
            expected = logits_to_probs(logits, sampling)
            torch.testing.assert_close(law, expected, rtol=2e-3, atol=1e-5)
            assert dice.draw(law, len(context) + index) == proposal.token_ids[index]


@pytest.mark.parametrize("kind", KINDS)
def test_gamma_drafts_cost_gamma_passes(kind):
    rounds, drafter, result = recorded(kind, random_net(kind))
    drafted = [len(proposal.token_ids) for _, _, proposal in rounds]
    assert drafter.num_passes == sum(drafted) == sum(record.proposed for record in result.rounds)
    assert len(set(drafted)) > 1 or drafted[0] == 4


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_weights_and_state_and_state_goes(kind):
    net = random_net(kind)
    weights = 4 * sum(parameter.numel() for parameter in net.parameters())
    drafter = make_drafter(kind, net)
    assert drafter.memory_bytes == weights
    result = tiny_engine().generate(PROMPT, 6, proposer=drafter, depth=3, ignore_eos=True)
    assert result.extra_memory_bytes > weights
    assert drafter.memory_bytes == weights  # the request is over


def test_a_frozen_drafter_needs_an_engine():
    with pytest.raises(InputError, match="only an engine can lend it"):
        make_drafter("frozen_kv_mtp", random_net("frozen_kv_mtp")).propose([1, 2], 1)
