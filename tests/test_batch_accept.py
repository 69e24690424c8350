"""Acceptance of a whole batch where its logits are, as on a card, against the rules one by one.

The code is the same on every device; here it runs with torch's walk in the kernel's place.
"""

import random

import pytest
import torch

from lessons.lib import accept_batch
from lessons.lib.accept_batch import accept_together, can_accept_together
from lessons.lib.config import SamplingParams
from lessons.lib.draft.dspark_planner import VerifyLength
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.sampling import SeededRandom, logits_to_probs
from lessons.lib.sequence import Request
from lessons.lib.tree import DraftTree, random_tree
from lessons.lib.turn import Turn
from lessons.lib.verify_round import verify_round
from tests.batch_kit import assert_expected, make_cases, run_all, tiny_engine

VOCABULARY = 7


def request(number, sampling, num_tokens=5):
    tokens = [number % VOCABULARY] * num_tokens
    return Request(str(number), tokens, 99, sampling, None, 8, frozenset(), (), str)


def random_turn(rng, number):
    sampling = rng.choice([SamplingParams(), SamplingParams(1.3, 4, 0.9, seed=number)])
    mine = request(number, sampling, rng.randint(1, 9))
    kind = rng.choice(["inside", "end", "chain", "tree", "shortened"])
    if kind in ("inside", "end"):
        chunk = DraftTree.chain(rng.choices(range(VOCABULARY), k=4))
        return Turn(mine, chunk, None, int(kind == "end"))
    if kind == "tree":
        tree = random_tree(rng.randint(1, 9), VOCABULARY, rng)
        parents = [parent - 1 for parent in tree.parent_ids[1:]]
        proposal = DraftProposal(list(tree.token_ids[1:]), parent_ids=parents)
        return Turn(mine, tree, proposal, tree.num_nodes)
    proposal = DraftProposal(rng.choices(range(VOCABULARY), k=rng.randint(0, 6)))
    tree = proposal.to_tree(mine.token_ids[-1])
    turn = Turn(mine, tree, proposal, tree.num_nodes)
    if kind == "shortened":
        num_rows = rng.randint(0, len(proposal.token_ids))
        return turn.shortened(VerifyLength(num_rows, rng.randint(0, num_rows)))
    return turn


def one_by_one(turns, logits):
    parts = logits.split([turn.num_logits for turn in turns])
    return [
        turn.verify(rows, rows.argmax(-1), verify_round) if turn.num_logits else None
        for turn, rows in zip(turns, parts, strict=True)
    ]


def test_it_is_what_the_rules_say_one_by_one():
    rng, accepted = random.Random(3), 0
    for seed in range(150):
        turns = [random_turn(rng, number) for number in range(rng.randint(1, 6))]
        generator = torch.Generator().manual_seed(seed)
        total = sum(turn.num_logits for turn in turns)
        logits = 2 * torch.randn(total, VOCABULARY, generator=generator)
        found = accept_together(turns, logits)
        assert found == one_by_one(turns, logits)
        accepted += sum(len(one.accepted_token_ids) for one in found if one)
    assert accepted > 40  # the walks went somewhere


def test_rows_are_drawn_as_one_row_is():
    probs = logits_to_probs(torch.randn(40, VOCABULARY), SamplingParams(1.0, 3))
    source, positions = SeededRandom(5), [3 * (row % 7) for row in range(40)]
    expected = [source.draw(probs[row], position) for row, position in enumerate(positions)]
    assert source.draw_rows(probs, positions).tolist() == expected
    assert len(set(expected)) > 3


def test_draft_laws_are_left_to_the_rules():
    law = torch.full((1, VOCABULARY), 1 / VOCABULARY)
    proposal = DraftProposal([2], draft_probs=law)
    for sampling, expected in [(SamplingParams(1.0), False), (SamplingParams(), True)]:
        turn = Turn(request(0, sampling), proposal.to_tree(0), proposal, 2)
        assert can_accept_together([turn]) is expected
    assert can_accept_together([]) and accept_together([], torch.empty(0, VOCABULARY)) == []


def test_an_engine_that_accepts_so_gives_the_same_texts(monkeypatch):
    calls, cases = [], make_cases(8, seed=11)

    def counted(turns, logits):
        calls.append(len(turns))
        return accept_together(turns, logits)

    monkeypatch.setattr(accept_batch, "uses_triton", lambda tensor: True)
    monkeypatch.setattr(accept_batch, "accept_together", counted)
    outcome, records = run_all(tiny_engine(page_size=4, num_kv_tokens=300), cases)
    assert_expected(outcome)
    assert len(calls) == len(records) and max(calls) > 1


@pytest.mark.gpu
def test_on_a_card_the_kernel_says_the_same():
    rng = random.Random(4)
    for seed in range(20):
        turns = [random_turn(rng, number) for number in range(5)]
        total = sum(turn.num_logits for turn in turns)
        logits = 2 * torch.randn(total, VOCABULARY, generator=torch.Generator().manual_seed(seed))
        assert accept_together(turns, logits.cuda()) == one_by_one(turns, logits)
