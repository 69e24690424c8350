"""Which path of a draft tree the target keeps: pure functions of laws, tree and random events.

The walk starts at the root and descends into the one child that is accepted at each node. Where no
child is, it stops with one more token: *recovered* where children were rejected, *bonus* at a leaf.
A child's own row is the target's law after that child, because the tree mask shows it exactly its
ancestors. The rules are lossless, but for those with `lossy` in their names.

Siblings share a position, and a RandomSource has one coin for a position. So siblings are tried
against the *running sum* of their acceptance probabilities: the coin that rejected the first one is
still uniform above its probability, and no second coin is needed.

`kernels/acceptance.py` holds batched kernels of three of them: `accept_tree_greedy` is
`verify_tree_greedy` (and `verify_tree_delta`, given drawn tokens for the argmax: `accept_batch`),
`accept_tree_delta` is `verify_tree_delta_in_order`, and `accept_chain` is
`verify_tree_without_replacement` on a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lessons.lib.sampling import RandomSource
from lessons.lib.tree import DraftTree, TreeError
from lessons.lib.verify import Verification, residual_probs

# A child, the probability that it or an earlier sibling is accepted, the law left if it is not.
Trial = tuple[int, float, Tensor]


@dataclass(frozen=True)
class TreeVerification(Verification):
    """Outcome of one round on a tree.

    accepted_path: nodes from the root on, the root included; exactly the rows whose KV stays, and
    as many of them as the round yields tokens.
    """

    accepted_path: tuple[int, ...] = (0,)


def verify_tree_greedy(tree: DraftTree, target_token_ids: Tensor) -> TreeVerification:
    """Walk to the child that is the target's argmax, while there is one.

    target_token_ids [num_nodes]: the argmax after each node.
    """
    _check_rows(tree, target_token_ids, dims=1)
    path = [0]
    while True:
        wanted = int(target_token_ids[path[-1]])
        child = _child_with_token(tree, path[-1], wanted)
        if child is None:
            return end_walk(tree, path, wanted)
        path.append(child)


def verify_tree_delta(
    tree: DraftTree, target_probs: Tensor, random: RandomSource, position: int
) -> TreeVerification:
    """Guesses that came without a law: draw the target's token and follow the child that has it.

    target_probs [num_nodes, vocab]; `position` is the index of the root's children in the sequence.
    Each child is accepted with its own target probability. The draw does not depend on the tree, so
    for equal random numbers speculation returns the tokens that plain sampling would.
    """
    _check_rows(tree, target_probs)
    path = [0]
    while True:
        node = path[-1]
        drawn = random.draw(target_probs[node], position + tree.depths[node])
        child = _child_with_token(tree, node, drawn)
        if child is None:
            return end_walk(tree, path, drawn)
        path.append(child)


def verify_tree_delta_in_order(
    tree: DraftTree, target_probs: Tensor, random: RandomSource, position: int
) -> TreeVerification:
    """The same law as `verify_tree_delta`, without a draw at the nodes that are passed.

    Accept a child with its probability under the current law, else take its token out of the law
    and renormalise. Against one coin that is the running sum of the siblings' probabilities. Only
    the children's probabilities are read on the way, which is why kernels use this form.
    Rule: EAGLE's posterior evaluation; SGLang's target-only tree sampling kernel.
    """

    def trials(node: int) -> Iterator[Trial]:
        law, rejected_all = target_probs[node], 1.0
        for child in tree.children[node]:
            rejected_all *= 1 - float(law[tree.token_ids[child]])
            law = _without_token(law, tree.token_ids[child])
            yield child, 1 - rejected_all, law

    _check_rows(tree, target_probs)
    return _walk(tree, target_probs, trials, random, position)


def verify_tree_without_replacement(
    tree: DraftTree,
    target_probs: Tensor,
    draft_probs: Tensor,
    random: RandomSource,
    position: int,
) -> TreeVerification:
    """Siblings drawn without replacement from known laws; on a chain, the rule of Leviathan et al.

    target_probs, draft_probs [num_nodes, vocab]. `draft_probs[i]` is the law the first child of
    node i was drawn from, the second from that law without the first one's token, and so on; rows
    of leaves are not read. Accept with min(1, target / draft); after a rejection the target's law
    becomes the residual and the draft's law loses the token.
    Rule: recursive rejection sampling (2402.14160), Sequoia (2402.12374).
    Raises TreeError for a child its draft law cannot have produced.
    """

    def trials(node: int) -> Iterator[Trial]:
        target, draft, rejected_all = target_probs[node], draft_probs[node], 1.0
        for child in tree.children[node]:
            token = tree.token_ids[child]
            if not draft[token] > 0:
                raise TreeError(f"tree: node {child}, token {token}, has draft probability 0")
            rejected_all *= 1 - min(1.0, float(target[token]) / float(draft[token]))
            target = residual_probs(target, draft)
            yield child, 1 - rejected_all, target
            draft = _without_token(draft, token)

    _check_rows(tree, target_probs)
    if not tree.children[0]:
        draft_probs = target_probs  # a root alone: no draft law is read
    _check_rows(tree, draft_probs)
    return _walk(tree, target_probs, trials, random, position)


def verify_tree_lossy_typical(
    tree: DraftTree, target_probs: Tensor, epsilon: float = 0.09, delta: float = 0.3
) -> TreeVerification:
    """LOSSY. Medusa's typical acceptance: a guess is kept when it is likely enough, never tested.

    target_probs [num_nodes, vocab]. A child is kept when its probability is above
    min(epsilon, delta * exp(-entropy)); of the kept paths the longest wins, and the argmax follows.
    What comes out does not have the target's law, not even at temperature 0. Rule: 2401.10774.
    """
    _check_rows(tree, target_probs)
    entropy = -torch.xlogy(target_probs, target_probs).sum(-1)
    threshold = (delta * torch.exp(-entropy)).clamp(max=epsilon)
    kept = {0}
    for node in range(1, tree.num_nodes):
        parent = tree.parent_ids[node]
        likely = target_probs[parent, tree.token_ids[node]] > threshold[parent]
        if parent in kept and likely:
            kept.add(node)
    deepest = max(sorted(kept), key=lambda node: tree.depths[node])
    return end_walk(tree, list(tree.path(deepest)), int(target_probs[deepest].argmax()))


def verify_tree_lossy_threshold(
    tree: DraftTree,
    target_probs: Tensor,
    random: RandomSource,
    position: int,
    single: float = 1.0,
    accumulated: float = 1.0,
) -> TreeVerification:
    """LOSSY below 1. `verify_tree_delta_in_order` with SGLang's two acceptance thresholds.

    A child is kept outright when its probability reaches `single`, and the running sum of the
    siblings is divided by `accumulated`. Both bend the law towards the draft's guesses.
    """

    def trials(node: int) -> Iterator[Trial]:
        law, running_sum = target_probs[node], 0.0
        for child in tree.children[node]:
            probability = float(target_probs[node, tree.token_ids[child]])
            running_sum += probability
            law = _without_token(law, tree.token_ids[child])
            yield child, 1.0 if probability >= single else running_sum / accumulated, law

    _check_rows(tree, target_probs)
    return _walk(tree, target_probs, trials, random, position)


def scatter_draft_probs(draft_probs: Tensor, d2t: Tensor, vocab_size: int) -> Tensor:
    """A law over a reduced draft vocabulary as a law over the full one, zero elsewhere.

    draft_probs [..., draft_vocab], d2t [draft_vocab] the offset from a draft id to its target id
    (target id = draft id + d2t[draft id], as EAGLE-3 stores it) -> [..., vocab_size].
    """
    target_ids = torch.arange(d2t.shape[0], device=d2t.device) + d2t
    if d2t.shape[0] != draft_probs.shape[-1]:
        raise TreeError(f"d2t: {d2t.shape[0]} offsets for {draft_probs.shape[-1]} draft tokens")
    if target_ids.unique().numel() != target_ids.numel():
        raise TreeError("d2t: two draft ids map to one target id")
    if int(target_ids.min()) < 0 or int(target_ids.max()) >= vocab_size:
        raise TreeError(f"d2t: maps outside the target vocabulary of {vocab_size}")
    full = draft_probs.new_zeros(*draft_probs.shape[:-1], vocab_size)
    return full.index_copy_(-1, target_ids, draft_probs)


def _walk(
    tree: DraftTree,
    target_probs: Tensor,
    trials: Callable[[int], Iterator[Trial]],
    random: RandomSource,
    position: int,
) -> TreeVerification:
    """Descend into the accepted child of each node; at the last one draw what is left."""
    path = [0]
    while True:
        node = path[-1]
        law, here = target_probs[node], position + tree.depths[node]
        for child, running_sum, residual in trials(node):
            if random.accepts(running_sum, here):
                path.append(child)
                break
            law = residual
        else:
            return end_walk(tree, path, random.draw(law, here))


def end_walk(tree: DraftTree, path: list[int], token: int) -> TreeVerification:
    """The outcome of a walk along `path` that drew `token` at its end: a bonus at a leaf."""
    at_leaf = not tree.children[path[-1]]
    return TreeVerification(
        [tree.token_ids[node] for node in path[1:]],
        recovered_token=None if at_leaf else token,
        bonus_token=token if at_leaf else None,
        accepted_path=tuple(path),
    )


def _child_with_token(tree: DraftTree, node: int, token: int) -> int | None:
    return next((c for c in tree.children[node] if tree.token_ids[c] == token), None)


def _without_token(probs: Tensor, token: int) -> Tensor:
    """The law given that it is not `token`. Where nothing is left the law is returned unchanged:
    its last token is rejected with probability zero, and only rounding can ask for what follows.
    """
    rest = probs.clone()
    rest[token] = 0
    return rest / rest.sum() if rest.any() else probs


def _check_rows(tree: DraftTree, rows: Tensor, dims: int = 2) -> None:
    if rows.dim() != dims or rows.shape[0] != tree.num_nodes:
        raise TreeError(f"rows: shape {tuple(rows.shape)} for a tree of {tree.num_nodes} nodes")
