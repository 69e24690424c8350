"""What EAGLE-3 proposes is what the slow reference proposes, round for round."""

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.beam_tree import BeamTree
from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.tree_verify import scatter_draft_probs
from tests.batch_kit import random_ids, tiny_model
from tests.eagle3_kit import llama_engine, proposer_of, tiny_net
from tests.eagle3_reference import Reference, best_chain, best_tree, target_features

PROMPT = random_ids(20, seed=5)


class Recorder(Eagle3Proposer):
    """Remembers what it proposed behind which context."""

    def propose(self, context_ids, num_draft_tokens):
        proposal = super().propose(context_ids, num_draft_tokens)
        self.log = [*getattr(self, "log", []), (list(context_ids), num_draft_tokens, proposal)]
        return proposal


def recorded(net, depth=5, sampling=None, **settings):
    """(proposals of a run over the tiny target, the drafter)"""
    embedding = tiny_model("llama")[0].embedding
    drafter = Recorder(net, embedding, sampling, **settings)
    engine = llama_engine(token_budget=13)  # the prompt comes in chunks
    engine.generate(PROMPT, 16, sampling, drafter, depth, ignore_eos=True)
    assert len(drafter.log) > 3
    return drafter.log, drafter


def reference_of(net):
    model, _ = tiny_model("llama")
    return Reference(net.to_tensors(), model.config, model.embedding)


def paths_of(proposal):
    paths = []
    for token, parent in zip(proposal.token_ids, proposal.parent_ids, strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    return set(paths)


def agreeing_chains(net, layers=None, shift=1):
    """Share of the rounds in which the reference, reading these layers, guesses the same."""
    reference, rounds = reference_of(net), recorded(net)[0]
    same = 0
    for context, count, proposal in rounds:
        features = target_features(context, layers or net.config.feature_layers)[:-1]
        next_ids = (context * 2)[shift : shift + len(features)]
        same += best_chain(reference, features, next_ids, count) == proposal.token_ids
    return same / len(rounds)


def test_chains_are_the_references():
    assert agreeing_chains(tiny_net()) == 1


@pytest.mark.parametrize(
    "mistake", [{"layers": (2, 3, 1)}, {"layers": (0, 2, 1)}, {"shift": 0}, {"shift": 2}]
)
def test_a_wrong_layer_or_token_shift_would_show(mistake):
    assert agreeing_chains(tiny_net(), **mistake) < 0.5


@pytest.mark.parametrize(("width", "levels", "depth"), [(2, 4, 6), (3, 3, 12), (4, 2, 3)])
def test_trees_are_the_references(width, levels, depth):
    net = tiny_net()
    reference = reference_of(net)
    rounds, _ = recorded(net, depth, width=width, num_levels=levels)
    for context, count, proposal in rounds:
        features = target_features(context, net.config.feature_layers)[:-1]
        expected = best_tree(reference, features, context[1:], count, width, min(levels, count))
        assert paths_of(proposal) == expected
        assert len(proposal.token_ids) == count or count > len(expected)


@pytest.mark.parametrize("filters", [{}, {"top_k": 5}, {"top_p": 0.7}])
def test_drawn_chains_carry_the_law_they_were_drawn_from(filters):
    net, sampling = tiny_net(), SamplingParams(0.8, seed=3, **filters)
    reference = reference_of(net)
    rounds, _ = recorded(net, 3, sampling)
    for context, count, proposal in rounds:
        features = target_features(context, net.config.feature_layers)[:-1]
        assert proposal.draft_probs.shape == (count, 97)
        for index, law in enumerate(proposal.draft_probs):
            behind = proposal.token_ids[:index]
            log_probs = reference.log_probs(features, context[1:], behind)
            plain = (log_probs / 0.8).softmax(-1)
            expected = scatter_draft_probs(plain, net.d2t, 97)
            kept = law > 0
            assert kept[proposal.token_ids[index]]
            torch.testing.assert_close(law[kept], (expected[kept] / expected[kept].sum()))
            assert kept.sum() <= {"top_k": 5}.get(next(iter(filters), ""), 97)
            assert not kept[~torch.isin(torch.arange(97), net.target_ids)].any()


@pytest.mark.parametrize(("width", "levels"), [(1, 6), (3, 3)])
def test_a_round_costs_one_pass_and_one_for_each_further_level(width, levels):
    net = tiny_net()
    rounds, drafter = recorded(net, 5, width=width, num_levels=levels)
    depths = [count if width == 1 else min(levels, count) for _, count, _ in rounds]
    assert drafter.num_passes == sum(1 + (depth - 1) for depth in depths)


def test_a_beam_of_certain_tokens_stays_connected():
    tree = BeamTree(2)
    tree.expand(torch.tensor([[0.0, -9.0]]), torch.tensor([[7, 8]]))
    tree.expand(torch.tensor([[0.0, -9.0]] * 2), torch.tensor([[1, 2], [3, 4]]))
    tree.expand(torch.tensor([[0.0, -9.0]] * 2), torch.tensor([[5, 6], [7, 8]]))
    assert paths_of(tree.select(3)) == {(7,), (7, 1), (7, 1, 5)}


def test_settings_and_order_of_features_are_checked():
    with pytest.raises(InputError, match="width"):
        proposer_of(tiny_net(), width=0)
    drafter = proposer_of(tiny_net())
    drafter.observe_features(0, torch.zeros(2, 144), [1, 2])
    with pytest.raises(AssertionError, match="position 3, known up to 2"):
        drafter.observe_features(3, torch.zeros(1, 144), [4])
    with pytest.raises(AssertionError, match="features of 2 of 4 tokens"):
        drafter.propose([0, 1, 2, 3], 2)


def test_the_head_may_have_the_whole_vocabulary():
    net = tiny_net(draft_vocab_size=97)
    assert net.target_ids.tolist() == list(range(97)) and not net.d2t.any()
    assert agreeing_chains(net) == 1
