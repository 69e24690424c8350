"""Requests that draft together propose what each proposes alone, in as many passes as one."""

from dataclasses import dataclass

import pytest
import torch

from kernels.block_allocator import OutOfPages
from lessons.lib import pacing
from lessons.lib.config import SamplingParams
from lessons.lib.draft import lockstep
from lessons.lib.draft.lockstep import Ask, SharedProposer, by_row, in_lockstep, propose_all
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.draft.standalone import DraftModel
from lessons.lib.engine import Engine
from tests.batch_kit import random_ids, tiny_model
from tests.block_kit import block_net
from tests.block_kit import block_proposer as blocks
from tests.drafter_kit import draft_model, make_drafter, random_net
from tests.eagle3_kit import proposer_of, tiny_net

NUM_NEW, DEPTH = 14, 4
PROMPTS = [random_ids(9 + 7 * number, seed=number) for number in range(3)]
DRAWN = SamplingParams(0.9, seed=5)
KINDS = (
    "eagle3", "eagle3-tree", "mtp", "frozen_kv_mtp", "standalone", "dflash", "dspark", "dspark-rnn",
)  # fmt: skip


def maker(kind, sampling=None):
    """(target, function that makes proposers which share a network)"""
    if kind.startswith("eagle3"):
        net, width = tiny_net(), 3 if kind.endswith("tree") else 1
        return tiny_model("llama"), lambda: proposer_of(net, sampling=sampling, width=width)
    model, tokenizer = tiny_model()
    if kind.startswith("d"):
        family, _, head = kind.partition("-")
        made = blocks(family, sampling, **{"markov_head_type": head} if head else {})
        return (model, tokenizer), lambda: type(made)(made._net, model, sampling)
    net = random_net(kind)
    shared = draft_model(net, model) if kind == "standalone" else net
    return (model, tokenizer), lambda: make_drafter(kind, shared, sampling)


@pytest.fixture
def heard(monkeypatch):
    """Of every proposal its context, and how many requests each computation was for."""

    @dataclass
    class Heard:
        proposals: dict
        sizes: list

    heard = Heard({}, [])

    def overhear(questions):
        made = propose_all(questions)
        heard.proposals |= {
            tuple(ids): proposal for (_, ids, _), proposal in zip(questions, made, strict=True)
        }
        return made

    def count(original):
        def many(self, items):
            heard.sizes.append(len(items))
            return original(self, items)

        return many

    monkeypatch.setattr(pacing, "propose_all", overhear)
    monkeypatch.setattr(lockstep.RowWise, "__call__", count(lockstep.RowWise.__call__))
    monkeypatch.setattr(DraftModel, "append", count(DraftModel.append))
    return heard


def run(target, proposers, sampling):
    """Texts of the prompts, all at once."""
    engine = Engine(*target)
    names = [
        engine.add_request(prompt, NUM_NEW, sampling, proposer, DEPTH, ignore_eos=True)
        for prompt, proposer in zip(PROMPTS, proposers, strict=False)
    ]
    while engine.has_work:
        engine.step()
    return [engine.take_result(name).token_ids for name in names]


@pytest.mark.parametrize("sampling", [None, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("kind", KINDS)
def test_together_they_propose_what_each_proposes_alone(kind, sampling, heard):
    if kind == "eagle3-tree" and sampling:
        pytest.skip("trees are of the likeliest tokens")
    target, make = maker(kind, sampling)
    texts = run(target, [make() for _ in PROMPTS], sampling)
    together, heard.proposals = heard.proposals, {}
    if kind != "frozen_kv_mtp":  # its passes have no step that goes by rows
        assert heard.sizes.count(3) > len(heard.sizes) / 3
    heard.sizes.clear()
    for prompt, text in zip(PROMPTS, texts, strict=True):
        engine = Engine(*target)
        assert text == engine.generate(prompt, NUM_NEW, sampling, make(), DEPTH, True).token_ids
    assert set(heard.sizes) <= {1}
    assert len(together) > 12 and set(together) == set(heard.proposals)
    for context, proposal in together.items():
        alone = heard.proposals[context]
        assert proposal.token_ids == alone.token_ids and proposal.parent_ids == alone.parent_ids
        torch.testing.assert_close(
            proposal.draft_probs, alone.draft_probs, rtol=1e-3, atol=1e-6
        ) if sampling else None
        torch.testing.assert_close(proposal.confidences, alone.confidences, rtol=1e-4, atol=1e-5)


def test_a_frozen_pass_over_three_requests_is_one_pass(monkeypatch):
    net, calls = random_net("frozen_kv_mtp"), []
    net.register_forward_hook(lambda _net, inputs, _out: calls.append(len(inputs[0])))
    target, _ = maker("frozen_kv_mtp")
    run(target, [make_drafter("frozen_kv_mtp", net) for _ in PROMPTS], None)
    assert calls.count(3) > len(calls) / 3


def test_rows_come_back_to_those_who_asked():
    net = block_net("dflash", tiny_model()[0].config)

    def steps(seed, count):
        torch.manual_seed(seed)
        features, positions = torch.randn(count, net.fc.in_features), torch.arange(count)
        made = yield by_row(net.context, features, positions)
        return made, net.context(features, positions)

    for made, expected in in_lockstep([steps(1, 4), steps(2, 1), steps(3, 7)]):
        torch.testing.assert_close(made, [tuple(pair) for pair in expected])


def test_none_stays_none_and_settings_part_the_askers():
    calls = []

    def function(rows, state, factor):
        calls.append(len(rows))
        return rows * factor, state

    def steps(value, factor):
        rows, state = yield by_row(function, torch.tensor([value]), None, settings=(factor,))
        return rows.tolist(), state

    asked = [steps(1.0, 2), steps(2.0, 3), steps(3.0, 2)]
    assert in_lockstep(asked) == [([2.0], None), ([6.0], None), ([6.0], None)]
    assert sorted(calls) == [1, 2]


class Counting(SharedProposer):
    """Proposes how often it was drafted for; `broken` fails in the middle."""

    def __init__(self, broken=False):
        self.broken, self.log = broken, []

    def drafting(self, context_ids, num_draft_tokens):
        try:
            yield Ask(list, 1)
            if self.broken:
                raise OutOfPages(1, 0)
            yield Ask(list, 2)
            return DraftProposal([7])
        finally:
            self.log.append("closed")


def test_a_listener_or_a_subclass_of_its_own_is_still_asked_itself():
    class Own(Counting):
        def propose(self, context_ids, num_draft_tokens):
            return DraftProposal([1])

    listened = Counting()
    listened.propose = lambda context_ids, num_draft_tokens: DraftProposal([2])
    questions = [(proposer, [0], 1) for proposer in (Own(), Counting(), listened)]
    assert [made.token_ids for made in propose_all(questions)] == [[1], [7], [2]]


def test_where_one_fails_all_are_closed():
    proposers = [Counting(), Counting(broken=True), Counting()]
    with pytest.raises(OutOfPages):
        propose_all([(proposer, [0], 1) for proposer in proposers])
    assert [proposer.log for proposer in proposers] == [["closed"]] * 3


def test_steps_that_somebody_holds_are_closed_too():
    held = [proposer.drafting([0], 1) for proposer in (Counting(), Counting(broken=True))]
    held.append(Counting().drafting([0], 1))
    with pytest.raises(OutOfPages):
        in_lockstep(held)
    assert [steps.gi_frame for steps in held] == [None] * 3


@torch.inference_mode()
def test_drafting_that_is_stopped_leaves_no_guess_behind():
    (model, _), make = maker("eagle3")
    proposer = make()
    features = torch.randn(5, len(proposer.feature_layers) * model.config.hidden_size)
    proposer.observe_features(0, features, [1, 2, 3, 4, 5])
    expected = proposer.propose([0, 1, 2, 3, 4, 5], 3).token_ids
    steps = proposer.drafting([0, 1, 2, 3, 4, 5], 3)
    ask, passes = steps.send(None), 0
    while passes < 6:
        ask, passes = steps.send(ask.many([ask.item])[0]), passes + 1
    steps.close()
    assert proposer.propose([0, 1, 2, 3, 4, 5], 3).token_ids == expected


def test_a_full_pool_stops_those_it_has_no_page_for_and_no_other():
    model, _ = tiny_model()
    draft = draft_model(random_net("standalone"), model, num_kv_tokens=64)
    prompts = [random_ids(30, seed=1), random_ids(40, seed=2)]
    proposers = [make_drafter("standalone", draft) for _ in prompts]
    made = propose_all([(p, ids, 3) for p, ids in zip(proposers, prompts, strict=True)])
    assert [len(proposal.token_ids) for proposal in made] == [3, 0]
    alone = make_drafter("standalone", draft_model(random_net("standalone"), model))
    assert made[0].token_ids == alone.propose(prompts[0], 3).token_ids
