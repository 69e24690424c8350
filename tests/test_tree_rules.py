"""Acceptance on trees: the output law is the target's, exactly; known wrong samplers are caught."""

import random

import pytest
import torch
import tree_samplers
from tree_oracle import (
    Seeded,
    World,
    chi_square_p_value,
    draw_counts,
    enumerate_outcomes,
    exact_law,
    target_law,
    total_variation,
)

from lessons.lib.sampling import SeededRandom
from lessons.lib.tree import DraftTree, TreeError, random_tree
from lessons.lib.tree_verify import (
    scatter_draft_probs,
    verify_tree_delta,
    verify_tree_delta_in_order,
    verify_tree_greedy,
    verify_tree_lossy_threshold,
    verify_tree_lossy_typical,
    verify_tree_without_replacement,
)
from lessons.lib.verify import verify_delta, verify_greedy, verify_sampled

WORLD = World()
SIGNIFICANCE = 1e-4
SMALLEST_ERROR = 0.04  # total variation of the least wrong of the wrong samplers
NUM_TRIALS = 4000  # enough to see that


def named(samplers):
    return pytest.mark.parametrize("sampler", samplers, ids=lambda sampler: sampler.__name__)


@named(tree_samplers.RIGHT)
@pytest.mark.parametrize("world", [WORLD, World(1, vocab_size=3)], ids=["four", "three"])
def test_exact_law_is_the_targets(world, sampler):
    law = exact_law(world, sampler)
    assert float(law.sum()) == pytest.approx(1, abs=1e-12)
    assert total_variation(law, target_law(world)) < 1e-12


@named(tree_samplers.WRONG)
def test_exact_law_shows_every_wrong_sampler(sampler):
    law = exact_law(WORLD, sampler)
    assert float(law.sum()) == pytest.approx(1, abs=1e-9)  # wrong, but still a sampler
    assert total_variation(law, target_law(WORLD)) > SMALLEST_ERROR


@named(
    [
        tree_samplers.chain,
        tree_samplers.siblings_without_replacement,
        tree_samplers.delta_siblings_in_order,
    ]
)
def test_chi_square_accepts_the_right_samplers(sampler):
    counts = draw_counts(WORLD, sampler, NUM_TRIALS)
    assert chi_square_p_value(counts, target_law(WORLD)) > SIGNIFICANCE


@named(tree_samplers.WRONG)
def test_chi_square_has_the_power_to_reject_wrong_samplers(sampler):
    is_subtle = total_variation(exact_law(WORLD, sampler), target_law(WORLD)) < 0.1
    counts = draw_counts(WORLD, sampler, NUM_TRIALS if is_subtle else NUM_TRIALS // 4)
    assert chi_square_p_value(counts, target_law(WORLD)) < SIGNIFICANCE


def test_acceptance_is_one_minus_total_variation():
    target, draft = WORLD.target(), WORLD.draft()

    def is_accepted(dice):
        tree = tree_samplers.drawn_chain(WORLD, dice, depth=1)
        laws = (tree_samplers.rows(law, tree) for law in (WORLD.target, WORLD.draft))
        return len(verify_tree_without_replacement(tree, *laws, dice.verify, 0).token_ids) == 2

    expected = 1 - total_variation(target, draft)
    assert enumerate_outcomes(is_accepted)[True] == pytest.approx(expected, abs=1e-12)
    measured = sum(is_accepted(Seeded(seed)) for seed in range(NUM_TRIALS)) / NUM_TRIALS
    sigma = (expected * (1 - expected) / NUM_TRIALS) ** 0.5
    assert abs(measured - expected) < 4 * sigma


def test_delta_node_accepts_the_mass_of_its_candidates():
    tree = tree_samplers.top_tree(WORLD)
    target = tree_samplers.rows(WORLD.target, tree)
    mass = float(target[0, list(tree.token_ids[1:3])].sum())
    for rule in (verify_tree_delta, verify_tree_delta_in_order):
        law = enumerate_outcomes(lambda dice, r=rule: len(r(tree, target, dice, 0).token_ids) > 1)
        assert law[True] == pytest.approx(mass, abs=1e-12)


def test_length_chosen_by_looking_at_the_drafts_leaks():
    """DSpark's counterexample: keeping a draft only when the next one looks promising is biased."""
    target, draft = torch.tensor([0.7, 0.3]), torch.tensor([0.5, 0.5])

    def first_token(dice, looks_ahead):
        drafted = dice.draft(draft, 0)
        if looks_ahead and drafted == 1:
            return dice.draw(target, 0)  # nothing is verified, the target's own token comes out
        tree = DraftTree.chain([0, drafted])
        laws = target.repeat(2, 1), draft.repeat(2, 1)
        return verify_tree_without_replacement(tree, *laws, dice, 0).token_ids[0]

    honest = enumerate_outcomes(lambda dice: first_token(dice, looks_ahead=False))
    assert honest[0] == pytest.approx(0.7, abs=1e-6)
    leaking = enumerate_outcomes(lambda dice: first_token(dice, looks_ahead=True))
    assert leaking[0] == pytest.approx(0.85, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_random_delta_trees_of_depth_three_are_exact(seed):
    world = World(seed, vocab_size=3)
    tree = random_tree(8, 3, random.Random(seed))
    target = tree_samplers.rows(world.target, tree)
    for rule in (verify_tree_delta, verify_tree_delta_in_order):
        law = exact_law(world, lambda world, dice, r=rule: r(tree, target, dice, 0).token_ids)
        assert total_variation(law, target_law(world)) < 1e-12


def test_six_tokens_and_three_siblings_are_exact():
    world = World(3, vocab_size=6)

    def sampler(world, dice):
        tree = tree_samplers.drawn_siblings(world, dice, 3, is_deep=False)
        laws = (tree_samplers.rows(law, tree) for law in (world.target, world.draft))
        return verify_tree_without_replacement(tree, *laws, dice, 0).token_ids

    assert total_variation(exact_law(world, sampler), target_law(world)) < 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_chains_agree_with_the_chain_rules(seed):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.randn(4, 7, generator=generator) * 2).softmax(-1)
    draft = (torch.randn(4, 7, generator=generator) * 2).softmax(-1)
    drafts = [SeededRandom(seed, is_draft=True).draw(draft[i], i) for i in range(3)]
    tree, coins = DraftTree.chain([0, *drafts]), SeededRandom(seed)
    pairs = [
        (
            verify_tree_without_replacement(tree, target, draft, coins, 11),
            verify_sampled(drafts, draft[:3], target, coins, 11),
        ),
        (
            verify_tree_delta(tree, target, coins, 11),
            verify_delta(drafts, target, coins, 11),
        ),
        (
            verify_tree_greedy(tree, target.argmax(-1)),
            verify_greedy(drafts, target.argmax(-1).tolist()),
        ),
    ]
    for on_tree, on_chain in pairs:
        assert on_tree.accepted_token_ids == on_chain.accepted_token_ids
        assert on_tree.recovered_token == on_chain.recovered_token
        assert on_tree.bonus_token == on_chain.bonus_token
        assert on_tree.accepted_path == tuple(range(len(on_tree.token_ids)))


@pytest.mark.parametrize("seed", range(20))
def test_greedy_is_the_longest_matching_path(seed):
    rng = random.Random(seed)
    tree = random_tree(30, 3, rng)
    argmax = torch.tensor([rng.randrange(3) for _ in range(30)])
    matching = [
        node
        for node in range(30)
        if all(argmax[tree.parent_ids[n]] == tree.token_ids[n] for n in tree.path(node)[1:])
    ]
    longest = max((tree.path(node) for node in matching), key=len)
    verified = verify_tree_greedy(tree, argmax)
    assert verified.accepted_path == longest
    assert verified.token_ids[-1] == argmax[longest[-1]]
    assert verified.token_ids[:-1] == [tree.token_ids[node] for node in longest[1:]]


@pytest.mark.parametrize("seed", range(10))
def test_delta_returns_what_plain_sampling_would(seed):
    """The same random numbers give the same tokens, whatever the tree guessed."""
    coins, world = SeededRandom(seed), World(2)
    tree = random_tree(12, 4, random.Random(seed))
    verified = verify_tree_delta(tree, tree_samplers.rows(world.target, tree), coins, 5)
    plain = []
    while len(plain) < len(verified.token_ids):
        plain.append(coins.draw(world.target(tuple(plain)), 5 + len(plain)))
    assert verified.token_ids == plain


def test_bonus_only_at_a_leaf():
    tree, one_hot = DraftTree((9, 1, 2), (-1, 0, 0)), torch.eye(4)
    at_leaf = verify_tree_greedy(tree, torch.tensor([2, 0, 3]))
    assert (at_leaf.bonus_token, at_leaf.recovered_token) == (3, None)
    assert at_leaf.accepted_path == (0, 2)
    rejected = verify_tree_greedy(tree, torch.tensor([3, 0, 3]))
    assert (rejected.bonus_token, rejected.recovered_token) == (None, 3)
    coins = SeededRandom(0)
    for rule in (verify_tree_delta, verify_tree_delta_in_order):
        assert rule(tree, one_hot[[2, 0, 3]], coins, 0) == at_leaf
        assert rule(tree, one_hot[[3, 0, 3]], coins, 0) == rejected


def test_lossy_rules_bend_the_law_in_the_stated_direction():
    tree = DraftTree.chain([0, 1, 1])
    target = torch.tensor([[0.6, 0.3, 0.1]]).repeat(3, 1)
    assert verify_tree_lossy_typical(tree, target).token_ids == [1, 1, 0]
    assert verify_tree_lossy_typical(tree, target, epsilon=0.5, delta=1.0).token_ids == [0]
    law = enumerate_outcomes(
        lambda dice: verify_tree_lossy_threshold(tree, target, dice, 0, single=0.3).token_ids[0]
    )
    assert law == {1: 1.0}


def test_draft_law_that_cannot_have_produced_the_tree_is_named():
    target, draft = torch.full((3, 4), 0.25), torch.tensor([[0.5, 0.5, 0, 0]]).repeat(3, 1)
    tree, coins = DraftTree((0, 2, 1), (-1, 0, 0)), SeededRandom(0)
    with pytest.raises(TreeError, match="node 1, token 2, has draft probability 0"):
        verify_tree_without_replacement(tree, target, draft, coins, 0)


def test_rows_must_match_the_tree():
    with pytest.raises(TreeError, match=r"shape \(2, 4\) for a tree of 3 nodes"):
        verify_tree_delta(DraftTree.chain([0, 1, 2]), torch.ones(2, 4), SeededRandom(0), 0)


def test_scatter_puts_each_probability_at_its_target_id():
    law = scatter_draft_probs(torch.tensor([[0.25, 0.75]]), torch.tensor([1, 3]), 6)
    assert law.tolist() == [[0, 0.25, 0, 0, 0.75, 0]]
    for offsets, size, message in [
        ([1, 0], 6, "two draft ids map to one"),
        ([1, 9], 6, "outside the target vocabulary of 6"),
        ([1, 1, 1], 6, "3 offsets for 2 draft tokens"),
    ]:
        with pytest.raises(TreeError, match=message):
            scatter_draft_probs(torch.tensor([0.25, 0.75]), torch.tensor(offsets), size)
