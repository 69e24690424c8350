"""Samplers for the judges of tree_oracle: the right ones, and wrong ones with where each was seen.

Every sampler drafts, verifies and returns the tokens of one round. Depths are two at most.
"""

import torch

from lessons.lib.tree import DraftTree
from lessons.lib.tree_verify import (
    scatter_draft_probs,
    verify_tree_delta,
    verify_tree_delta_in_order,
    verify_tree_lossy_threshold,
    verify_tree_lossy_typical,
    verify_tree_without_replacement,
)
from lessons.lib.verify import residual_probs, verify_sampled

ROOT_TOKEN = 0  # never part of a prefix: it stands for the text so far


def rows(law, tree):
    """law(prefix) after each node of the tree -> [num_nodes, vocab]."""
    return torch.stack(
        [
            law(tuple(tree.token_ids[n] for n in tree.path(node)[1:]))
            for node in range(len(tree.token_ids))
        ]
    )


# --- drafting ------------------------------------------------------------------------------------
def drawn_chain(world, dice, depth=2, **law):
    tokens = []
    for slot in range(depth):
        tokens.append(dice.draft(world.draft(tuple(tokens), **law), slot))
    return DraftTree.chain([ROOT_TOKEN, *tokens])


def drawn_siblings(world, dice, width=2, is_deep=True):
    """`width` children of the root without replacement; deep: each with one child of its own."""
    probs, tokens = world.draft(), []
    for slot in range(width):
        tokens.append(dice.draft(probs, slot))
        probs = probs.clone()
        probs[tokens[-1]] = 0
    if not is_deep:
        return DraftTree.from_draft(ROOT_TOKEN, tokens, [-1] * width)
    below = [dice.draft(world.draft((token,)), width + i) for i, token in enumerate(tokens)]
    return DraftTree.from_draft(ROOT_TOKEN, tokens + below, [-1] * width + list(range(width)))


def top_tree(world, width=2):
    """The draft's likeliest children of the root, and the likeliest of the first of them."""
    top = world.draft().topk(width).indices.tolist()
    below = world.draft((top[0],)).topk(width).indices.tolist()
    return DraftTree.from_draft(ROOT_TOKEN, top + below, [-1] * width + [0] * width)


# --- right ---------------------------------------------------------------------------------------
def chain_of_the_engine(world, dice):
    tree = drawn_chain(world, dice)
    drafts, target = rows(world.draft, tree)[:-1], rows(world.target, tree)
    return verify_sampled(list(tree.token_ids[1:]), drafts, target, dice.verify, 0).token_ids


def chain(world, dice):
    tree = drawn_chain(world, dice)
    laws = rows(world.target, tree), rows(world.draft, tree)
    return verify_tree_without_replacement(tree, *laws, dice.verify, 0).token_ids


def siblings_without_replacement(world, dice):
    tree = drawn_siblings(world, dice)
    laws = rows(world.target, tree), rows(world.draft, tree)
    return verify_tree_without_replacement(tree, *laws, dice.verify, 0).token_ids


def every_sibling(world, dice):
    """As many siblings as there are tokens: the draft law is exhausted."""
    tree = drawn_siblings(world, dice, world.vocab_size, is_deep=False)
    laws = rows(world.target, tree), rows(world.draft, tree)
    return verify_tree_without_replacement(tree, *laws, dice.verify, 0).token_ids


def delta_siblings_drawn(world, dice):
    tree = top_tree(world)
    return verify_tree_delta(tree, rows(world.target, tree), dice.verify, 0).token_ids


def delta_siblings_in_order(world, dice):
    tree = top_tree(world)
    return verify_tree_delta_in_order(tree, rows(world.target, tree), dice.verify, 0).token_ids


def every_delta_sibling(world, dice):
    tree = top_tree(world, world.vocab_size)
    return verify_tree_delta_in_order(tree, rows(world.target, tree), dice.verify, 0).token_ids


def threshold_of_one(world, dice):
    tree = top_tree(world)
    return verify_tree_lossy_threshold(tree, rows(world.target, tree), dice.verify, 0).token_ids


D2T = torch.tensor([1, 1])  # draft ids 0 and 1 are target ids 1 and 2


def _reduced(world, prefix=()):
    kept = world.draft(prefix)[torch.arange(2) + D2T]
    return kept / kept.sum()


def reduced_vocabulary(world, dice):
    drawn = dice.draft(_reduced(world), 0)
    tree = DraftTree.chain([ROOT_TOKEN, drawn + int(D2T[drawn])])
    full = scatter_draft_probs(_reduced(world).repeat(2, 1), D2T, world.vocab_size)
    target = rows(world.target, tree)
    return verify_tree_without_replacement(tree, target, full, dice.verify, 0).token_ids


RIGHT = [
    chain_of_the_engine,
    chain,
    siblings_without_replacement,
    every_sibling,
    delta_siblings_drawn,
    delta_siblings_in_order,
    every_delta_sibling,
    threshold_of_one,
    reduced_vocabulary,
]


# --- wrong ---------------------------------------------------------------------------------------
def _one_step(world, dice, token, target, draft, residual):
    """The chain rule at depth one with whatever laws and residual a bug makes of them."""
    if dice.verify.accepts(min(1.0, float(target[token] / draft[token])), 0):
        return [token, dice.verify.draw(world.target((token,)), 1)]
    return [dice.verify.draw(residual, 0)]


def residual_from_target(world, dice):
    """After a rejection the target's own law is drawn: the classic mistake."""
    token, p, q = dice.draft(world.draft(), 0), world.target(), world.draft()
    return _one_step(world, dice, token, p, q, p)


def bonus_after_a_rejection(world, dice):
    """The bonus of the last row is emitted although a token before it was rejected."""
    tree = drawn_chain(world, dice, depth=1)
    token, p, q = tree.token_ids[1], world.target(), world.draft()
    return _one_step(world, dice, token, p, q, world.target((token,)))


def ratio_at_another_temperature(world, dice):
    """Drafts drawn at temperature 0.5, scored at 1: jaymody/speculative-sampling#3 and kin."""
    token = dice.draft(world.draft(temperature=0.5), 0)
    p, q = world.target(), world.draft()
    return _one_step(world, dice, token, p, q, residual_probs(p, q))


def greedy_draft_scored_by_softmax(world, dice):
    """The argmax of the draft is proposed, but accepted as if it had been drawn."""
    p, q = world.target(), world.draft()
    return _one_step(world, dice, int(q.argmax()), p, q, residual_probs(p, q))


def raw_law_of_a_filtered_draft(world, dice):
    """Drafts drawn after top-k, scored with the raw law: huggingface/transformers#47932."""
    token = dice.draft(world.draft(top_k=2), 0)
    p, q = world.target(), world.draft()
    return _one_step(world, dice, token, p, q, residual_probs(p, q))


def draft_probs_divided_in_place(world, dice):
    """The ratio overwrites the draft law, and the residual reads it: vllm-project/vllm#16952."""
    token, p, q = dice.draft(world.draft(), 0), world.target(), world.draft()
    return _one_step(world, dice, token, p, q, residual_probs(p, p / q))


def target_zeroed_before_the_copy(world, dice):
    """The drafted token is taken out of the target's law before the residual is formed:
    vllm-project/vllm-ascend#2881; with drawn drafts that loses mass the token should keep."""
    token, p, q = dice.draft(world.draft(), 0), world.target(), world.draft()
    zeroed = p.clone()
    zeroed[token] = 0
    return _one_step(world, dice, token, p, q, zeroed / zeroed.sum())


def draft_noise_reused(world, dice):
    """The recovered token comes from the random number that drew the draft: a vLLM fork's #205."""
    number = dice.draft(torch.full((64,), 1 / 64, dtype=torch.float64), 0)

    def inverse(law):
        return int(torch.searchsorted(law.cumsum(0), (number + 0.5) / 64).clamp(max=len(law) - 1))

    p, q = world.target(), world.draft()
    token, residual = inverse(q), residual_probs(p, q)
    one_hot = torch.nn.functional.one_hot(torch.tensor(inverse(residual)), len(p)).double()
    return _one_step(world, dice, token, p, q, one_hot)


def match_then_residual(world, dice):
    """One sample of each is compared; on a mismatch the target's own sample is thrown away and the
    residual is drawn: mlx-swift-lm PR #459."""
    token, p, q = dice.draft(world.draft(), 0), world.target(), world.draft()
    if dice.verify.draw(p, 7) == token:
        return [token]
    return [dice.verify.draw(residual_probs(p, q), 0)]


def greedy_match_at_temperature(world, dice):
    """The argmax is emitted at temperature above zero: antirez/ds4#913; SGLang off CUDA."""
    return [int(world.target().argmax())]


def _two_siblings(world, dice, second_draft, second_target):
    tree = drawn_siblings(world, dice)
    first, second = tree.token_ids[1:3]
    p, q = world.target(), world.draft()
    ratio = min(1.0, float(p[first] / q[first]))
    if dice.verify.accepts(ratio, 0):
        return [first]
    p, q = second_target(p, q), second_draft(q, first)
    second_ratio = min(1.0, float(p[second] / q[second]))
    if dice.verify.accepts(1 - (1 - ratio) * (1 - second_ratio), 0):
        return [second]
    return [dice.verify.draw(residual_probs(p, q), 0)]


def _without(q, token):
    rest = q.clone()
    rest[token] = 0
    return rest / rest.sum()


def sibling_law_not_renormalised(world, dice):
    """The second sibling is scored with the law of the first one."""
    return _two_siblings(world, dice, lambda q, first: q, residual_probs)


def target_not_updated_for_the_sibling(world, dice):
    """The second sibling is tested against the full target law."""
    return _two_siblings(world, dice, _without, lambda p, q: p)


def true_law_after_a_rerank(world, dice):
    """Two candidates are drawn, the likelier one is kept and scored as if it had been drawn."""
    p, q = world.target(), world.draft()
    token = max(dice.draft(q, 0), dice.draft(q, 1), key=lambda t: q[t])
    return _one_step(world, dice, token, p, q, residual_probs(p, q))


def child_reads_the_parents_row(world, dice):
    """The second token is judged by the row of the root: right alone, wrong given the first."""
    tree = drawn_chain(world, dice)
    target = rows(world.target, tree)
    target[1] = target[0]
    laws = target, rows(world.draft, tree)
    return verify_tree_without_replacement(tree, *laws, dice.verify, 0).token_ids


def plain_law_at_an_exhausted_node(world, dice):
    """All siblings are rejected, then the target's law is drawn with them still in it."""
    tree = top_tree(world)
    accepted = verify_tree_delta_in_order(tree, rows(world.target, tree), dice.verify, 0)
    if len(accepted.accepted_path) > 1:
        return accepted.token_ids
    return [dice.verify.draw(world.target(), 9)]


def one_coin_without_a_running_sum(world, dice):
    """Every sibling is compared with the same coin by its own probability alone."""
    tree = top_tree(world)
    law = world.target()
    for token in tree.token_ids[1:3]:
        if dice.verify.accepts(float(law[token]), 0):
            return [token]
        law = _without(law, token)
    return [dice.verify.draw(law, 0)]


def typical_acceptance(world, dice):
    """Medusa's rule taken for lossless."""
    tree = top_tree(world)
    return verify_tree_lossy_typical(tree, rows(world.target, tree)).token_ids


def threshold_below_one(world, dice):
    """SGLang's accept threshold taken for lossless."""
    tree = top_tree(world)
    target = rows(world.target, tree)
    return verify_tree_lossy_threshold(tree, target, dice.verify, 0, accumulated=0.6).token_ids


def draft_vocabulary_not_scattered(world, dice):
    """The drafted id is mapped to the target's vocabulary, the law it is subtracted with is not."""
    drawn, p = dice.draft(_reduced(world), 0), world.target()
    token = drawn + int(D2T[drawn])
    padded = torch.nn.functional.pad(_reduced(world), (0, world.vocab_size - 2))
    if dice.verify.accepts(min(1.0, float(p[token] / padded[drawn])), 0):
        return [token]
    return [dice.verify.draw(residual_probs(p, padded), 0)]


WRONG = [
    residual_from_target,
    bonus_after_a_rejection,
    ratio_at_another_temperature,
    greedy_draft_scored_by_softmax,
    raw_law_of_a_filtered_draft,
    draft_probs_divided_in_place,
    target_zeroed_before_the_copy,
    draft_noise_reused,
    match_then_residual,
    greedy_match_at_temperature,
    sibling_law_not_renormalised,
    target_not_updated_for_the_sibling,
    true_law_after_a_rerank,
    child_reads_the_parents_row,
    plain_law_at_an_exhausted_node,
    one_coin_without_a_running_sum,
    typical_acceptance,
    threshold_below_one,
    draft_vocabulary_not_scattered,
]
