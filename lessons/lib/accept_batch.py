"""Acceptance of a whole batch where its logits are: on a card the host waits once a step.

`verify_round` walks one tree after the other on the host and, at a temperature, waits for a draw at
every node it comes to. Here the target's token is settled for all rows at once: the argmax, or the
draw from the row's law at its position, which does not depend on the drafts (`verify_delta`). Then
one kernel walks to the children that hold it. The tokens are those of `verify_round`. Proposals
drawn from laws of their own take a coin a draft and stay with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernels.acceptance import TreeLinks, accept_tree_greedy
from kernels.runtime import uses_triton
from lessons.lib.sampling import logits_to_probs, most_likely
from lessons.lib.tree import DraftTree
from lessons.lib.tree_verify import TreeVerification, end_walk
from lessons.lib.turn import Turn
from lessons.lib.verify_round import VerifyRound, verify_round


def accept(
    turns: Sequence[Turn], logits: torch.Tensor, verify: VerifyRound
) -> list[TreeVerification | None]:
    """What each turn may keep by `verify`; None for a chunk inside a prompt.

    logits [n, vocab], of the turns' scored rows. The argmax of all rows is taken at once: on a card
    the host then waits once, and where nobody reads a draft law, once at a temperature too.
    """
    if verify is verify_round and uses_triton(logits) and can_accept_together(turns):
        return accept_together(turns, logits)
    counts = [turn.num_logits for turn in turns]
    is_any_greedy = any(turn.request.sampling.is_greedy for turn in turns)
    winners = most_likely(logits).cpu() if is_any_greedy else logits.new_empty(logits.shape[0])
    parts = zip(turns, logits.split(counts), winners.split(counts), strict=True)
    return [
        turn.verify(rows, best, verify) if turn.num_logits else None for turn, rows, best in parts
    ]


def can_accept_together(turns: Sequence[Turn]) -> bool:
    """Whether every turn follows the target's token, so that no draft law is read."""
    return all(
        turn.request.sampling.is_greedy
        or turn.proposal is None
        or turn.proposal.draft_probs is None
        for turn in turns
    )


def accept_together(turns: Sequence[Turn], logits: torch.Tensor) -> list[TreeVerification | None]:
    """As `accept`, with `verify_round`. Must hold: `can_accept_together`."""
    scored = [turn for turn in turns if turn.num_logits]
    if not scored:
        return [None] * len(turns)
    rows = logits.split([turn.num_logits for turn in turns if turn.num_logits])
    trees = [turn.acceptable_tree for turn in scored]
    tokens = [_target_tokens(*one) for one in zip(scored, trees, rows, strict=True)]
    accepted = accept_tree_greedy(torch.cat(tokens), _links(trees, logits.device))
    parts = accepted.paths, accepted.path_lens[:, None], accepted.next_tokens[:, None]
    outcomes = {}
    for turn, tree, row in zip(scored, trees, torch.cat(parts, 1).tolist(), strict=True):
        *path, length, token = row
        outcomes[id(turn)] = end_walk(tree, path[:length], token)
    return [outcomes.get(id(turn)) for turn in turns]


def _target_tokens(turn: Turn, tree: DraftTree, logits: torch.Tensor) -> torch.Tensor:
    """The target's token behind each node [num_nodes] int64."""
    request, logits = turn.request, logits[: tree.num_nodes]
    if request.sampling.is_greedy:
        return most_likely(logits)
    first = len(request.token_ids)
    probs = logits_to_probs(logits, request.sampling)
    return request.random.draw_rows(probs, [first + depth for depth in tree.depths])


def _links(trees: Sequence[DraftTree], device: torch.device) -> TreeLinks:
    bounds = [0]
    for tree in trees:
        bounds.append(bounds[-1] + tree.num_nodes)
    return TreeLinks(
        torch.tensor([token for tree in trees for token in tree.token_ids], device=device),
        torch.tensor([n for tree in trees for n in tree.first_child], device=device).int(),
        torch.tensor([n for tree in trees for n in tree.next_sibling], device=device).int(),
        torch.tensor(bounds, device=device).int(),
        1 + max(max(tree.depths) for tree in trees),
    )
