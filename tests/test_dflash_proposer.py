"""What block proposers propose, their cache against a fresh one, the engine against greedy."""

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.lockstep import in_lockstep
from lessons.lib.sampling import SeededRandom, logits_to_probs
from tests.batch_kit import (
    assert_expected,
    random_ids,
    run_all,
    tiny_engine,
    tiny_model,
)
from tests.block_kit import (
    BLOCK,
    FEATURE_LAYERS,
    BlockCase,
    block_embeds,
    block_net,
    block_proposer,
    informed,
    slow_block_hidden,
    target_features,
)


def expected_logits(proposer_net, model, ids):
    hidden = slow_block_hidden(
        proposer_net, target_features(model, ids[:-1]), block_embeds(model, ids[-1])
    )
    return (hidden @ model.lm_head.double().T)[1:]  # the anchor's row predicts nothing


@pytest.mark.parametrize("count", [1, 3, BLOCK - 1, BLOCK + 4])
def test_a_greedy_proposal_is_the_argmax_of_each_position(count):
    model, _ = tiny_model()
    ids = random_ids(15, seed=4)
    proposer = informed(block_proposer("dflash"), model, ids)
    proposal = proposer.propose(ids, count)
    expected = expected_logits(block_net("dflash", model.config), model, ids).argmax(-1).tolist()
    assert proposal.token_ids == expected[:count]
    assert proposal.draft_probs is None


def test_a_drawn_proposal_brings_the_laws_it_was_drawn_from():
    model, _ = tiny_model()
    ids, sampling = random_ids(15, seed=5), SamplingParams(0.8, top_k=20, seed=11)
    proposal = informed(block_proposer("dflash", sampling), model, ids).propose(ids, 3)
    expected = expected_logits(block_net("dflash", model.config), model, ids)[:3]
    laws = logits_to_probs(expected, sampling)
    torch.testing.assert_close(proposal.draft_probs, laws, rtol=1e-3, atol=1e-5)
    dice = SeededRandom(11, is_draft=True)
    assert proposal.token_ids == [dice.draw(law, 15 + i) for i, law in enumerate(laws)]


def test_a_proposer_that_lacks_features_says_so():
    model, _ = tiny_model()
    ids = random_ids(8, seed=6)
    with pytest.raises(InputError, match="knows 0 positions of the 7"):
        block_proposer("dflash").propose(ids, 2)
    with pytest.raises(InputError, match="features of position 3 came before 0"):
        block_proposer("dflash").observe_features(3, target_features(model, ids), ids)


def test_memory_counts_weights_and_context():
    model, _ = tiny_model()
    ids, proposer = random_ids(8, seed=6), block_proposer("dflash")
    weights = sum(p.numel() for p in block_net("dflash", model.config).parameters()) * 4
    assert proposer.memory_bytes == weights
    informed(proposer, model, ids)
    hidden = model.config.hidden_size
    assert proposer.memory_bytes == weights + 7 * len(FEATURE_LAYERS) * hidden * 4  # they wait
    proposer.propose(ids, 2)
    slots = 2 * 7  # doubled, to have room for the block's own behind the context's
    assert proposer.memory_bytes == weights + slots * 2 * 2 * 2 * 16 * 4
    proposer.forget()
    assert proposer.memory_bytes == weights


def block_cases(kind, count):
    cases = []
    for number in range(count):
        prompt = random_ids(8 + 9 * number, seed=number)
        case = BlockCase(prompt, 22, SamplingParams(), kind, 4, number)
        case.expected = tiny_engine().generate(prompt, 22, ignore_eos=True).token_ids
        cases.append(case)
    return cases


@pytest.mark.parametrize("kind", ["dflash", "dspark"])
def test_greedy_text_is_that_of_the_target_alone(kind):
    cases = block_cases(kind, 4)
    outcome, _ = run_all(tiny_engine(), cases, every=3)
    assert_expected(outcome)
    rounds = [r for _, result in outcome.values() for r in result.rounds]
    assert {r.accepted for r in rounds} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("kind", ["dflash", "dspark"])
def test_preempted_and_chunked_requests_give_the_same_text(kind):
    engine = tiny_engine(num_kv_tokens=64, page_size=4, token_budget=11, shares_prefixes=False)
    outcome, records = run_all(engine, block_cases(kind, 3))
    assert_expected(outcome)
    assert any(record.preempted for record in records)


@pytest.mark.parametrize("kind", ["dflash", "dspark"])
def test_the_cached_context_is_what_a_fresh_one_would_be(kind):
    """After every step, whatever was accepted and rejected before it."""
    model, _ = tiny_model()
    (case,) = block_cases(kind, 1)
    engine, checked = tiny_engine(token_budget=6), 0
    name = case.add_to(engine)
    net = block_net(kind, model.config)
    while engine.has_work:
        engine.step()
        if not engine.has_work:
            break
        text = [*case.prompt, *case.expected][: case.made.num_cached]
        fresh = net.context(target_features(model, text), torch.arange(len(text)))
        in_lockstep([case.made._learn()])  # features of the last step may wait
        for cached, expected in zip(case.made._context, fresh, strict=True):
            torch.testing.assert_close(cached.rows, expected, rtol=1e-3, atol=1e-4)
        checked += 1
    assert engine.take_result(name).token_ids == case.expected and checked > 5
    assert case.made.num_cached == 0


@pytest.mark.parametrize("kind", ["dflash", "dspark"])
def test_a_round_takes_one_pass_of_one_block(kind):
    (case,) = block_cases(kind, 1)
    engine, rows = tiny_engine(), []
    name = case.add_to(engine)
    case.made._net.norm.register_forward_hook(lambda _net, args, _out: rows.append(len(args[0])))
    while engine.has_work:
        engine.step()
    rounds = engine.take_result(name).rounds
    assert rows == [BLOCK] * sum(r.proposed > 0 for r in rounds)
    assert len(rows) >= len(rounds) - 1  # the last round may have nothing left to draft
