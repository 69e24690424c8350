"""Lab 8D: EAGLE-3 with trees grown by functions over plain data, and the trees of a fixed shape."""

import functools
import math
from pathlib import Path

import pytest
import torch

from course.render.qmd import parse
from kernels.runtime import InputError
from lessons.lib.bench.draft_trees import RankCounter
from lessons.lib.cost_tree import greedy_tree
from lessons.lib.draft.beam_tree import BeamTree
from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.draft.static_tree import StaticTree, static_drafter
from lessons.lib.plugs.lab08d import AskedTree
from tests.batch_kit import random_ids, tiny_model
from tests.eagle3_kit import llama_engine, tiny_net

PROMPT = random_ids(20, seed=5)
ANSWERS = Path(__file__).parents[1] / "solutions/lab08d/answers.qmd"
WIDTH, LEVELS, SIZE = 3, 4, 7


def solution():
    names = {"math": math}
    for cell in parse(ANSWERS).cells:
        exec(cell.source, names)
    return names["grow_beam"], names["rerank"]


def run(drafter, size=SIZE):
    return llama_engine().generate(PROMPT, 16, None, drafter, size, ignore_eos=True)


def recorded(new_tree, num_levels=LEVELS):
    """What the trees of a run proposed, and its result."""
    log = []

    class Recorder(Eagle3Proposer):
        def propose(self, context_ids, num_draft_tokens):
            log.append(super().propose(context_ids, num_draft_tokens))
            return log[-1]

    embedding = tiny_model("llama")[0].embedding
    result = run(Recorder(tiny_net(), embedding, None, WIDTH, num_levels, new_tree))
    return log, result


def test_the_answer_grows_the_trees_of_the_engine():
    grow_beam, rerank = solution()
    asked = functools.partial(AskedTree, grow_beam=grow_beam, rerank=rerank)
    (ours, one), (theirs, other) = recorded(BeamTree), recorded(asked)
    assert ours == theirs and one.token_ids == other.token_ids
    assert len(ours) > 5 and any(max(tree.parent_ids) > 0 for tree in ours)


@pytest.mark.parametrize(
    ("beam", "tree", "match"),
    [
        (None, None, "grow_beam must return a pair"),
        (([0.0], [0]), None, "3 scores are needed, got 1"),
        (([-1.0] * 3, []), None, "the beam is empty"),
        (([-1.0] * 3, [0, 0]), None, "different candidates from 0 to 2"),
        (([-1.0] * 3, [3]), None, "different candidates from 0 to 2"),
        (([-1.0] * 3, [0]), 5, "rerank must return a pair"),
        (([-1.0] * 3, [0]), ([0, 1], [-1]), "2 nodes need as many parents, got 1"),
        (([-1.0] * 3, [0]), ([0, 1], [-1, 1]), "the place of an earlier node"),
        (([-1.0] * 3, [0]), ([7], [-1]), "rerank: nodes must be different candidates"),
    ],
)
def test_what_is_no_beam_or_no_tree_is_refused(beam, tree, match):
    asked = AskedTree(3, lambda *_: beam, lambda *_: tree)
    with pytest.raises(InputError, match=match):
        asked.expand(torch.tensor([[-1.0, -2.0, -3.0]]), torch.tensor([[4, 5, 6]]))
        asked.select(2)


def test_rounding_above_zero_does_not_reach_a_student():
    seen = []
    asked = AskedTree(1, lambda _, logs, __: seen.append(logs) or (logs, [0]), None)
    asked.expand(torch.tensor([[1e-7]]), torch.tensor([[4]]))
    assert seen == [[0.0]]


def test_a_static_tree_has_its_shape_whatever_the_drafter_is_sure_of():
    shape = greedy_tree((0.5, 0.2, 0.1), 1 + SIZE, LEVELS)
    static = functools.partial(StaticTree, shape=shape)
    trees, result = recorded(static, shape.depth)
    full = [tree for tree in trees if len(tree.token_ids) == SIZE]  # the last ones may be smaller
    assert len(full) > 3
    wanted = sorted(depths_of([parent - 1 for parent in shape.parents[1:]]))
    assert all(sorted(depths_of(tree.parent_ids)) == wanted for tree in full)
    assert result.token_ids == run(None, 0).token_ids


def depths_of(parents):
    depths = []
    for parent in parents:
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
    return depths


def test_a_static_tree_takes_the_guess_of_each_rank():
    """Root -> ranks 0 and 1; behind rank 1 its second guess."""
    shape = greedy_tree((0.5, 0.5), 4, 2)
    shape = type(shape)((-1, 0, 0, 2), (0, 0, 1, 1), (1.0,) * 4)
    tree = StaticTree(2, shape)
    tree.expand(torch.tensor([[-0.1, -3.0]]), torch.tensor([[7, 8]]))
    assert tree.beam_tokens == [8]
    tree.expand(torch.tensor([[-0.1, -3.0]]), torch.tensor([[1, 2]]))
    proposal = tree.select(3)
    assert proposal.token_ids == [7, 8, 2] and proposal.parent_ids == [-1, -1, 1]
    assert tree.select(2).token_ids == [7, 8]


def test_a_flat_static_tree_needs_no_second_pass():
    drafter = static_drafter(tiny_model("llama")[0], tiny_net(), greedy_tree((0.4, 0.3, 0.2), 4, 1))
    result = run(drafter, 3)
    assert drafter.num_passes == sum(record.proposed > 0 for record in result.rounds) > 5


def test_ranks_are_counted_along_the_accepted_path():
    counter = RankCounter(tiny_net(), tiny_model("llama")[0].embedding, None, 2, 2)
    counter.trials, counter.hits = 0, [0, 0]
    counter._proposal = DraftProposal([7, 8, 1, 2], parent_ids=[-1, -1, 1, 1])
    counter.observe([8, 1, 5])
    assert counter.trials == 2 and counter.hits == [1, 1]
    counter.observe([9])
    assert counter.trials == 3 and counter.hits == [1, 1]
