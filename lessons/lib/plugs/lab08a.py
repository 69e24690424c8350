"""Lab 8A: the engine lays its draft trees out with a student's `tree_layout`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernels.runtime import InputError
from lessons.lib.draft.proposer import DraftProposal, Proposer
from lessons.lib.tree import DraftTree, pack_rows

TreeLayoutRule = Callable[[list[int], int], tuple[Sequence[int], Sequence[Sequence[bool]]]]


@dataclass(frozen=True)
class PluggedTree(DraftTree):
    """A draft tree whose positions and mask come from `rule`; the forward reads nothing else.

    Which nodes are accepted is still decided by the links between parents and children.
    """

    rule: TreeLayoutRule

    def positions(self, context_len: int) -> torch.Tensor:
        """[num_nodes] int64. Raises InputError for what is no position."""
        return torch.tensor(self._laid_out(context_len)[0])

    def packed_mask(self, num_words: int | None = None) -> torch.Tensor:
        """[num_nodes, num_words] int64, as the kernel reads it. Raises InputError."""
        mask = self._laid_out(0)[1]
        rows = [sum(1 << node for node, seen in enumerate(row) if seen) for row in mask]
        return pack_rows(rows, num_words)

    def _laid_out(self, context_len: int) -> tuple[list[int], list[list[bool]]]:
        return checked(self.rule(list(self.parent_ids), context_len), self.num_nodes)


def plugged(tree: DraftTree, rule: TreeLayoutRule) -> PluggedTree:
    """The same tree, laid out by `rule`."""
    return PluggedTree(tree.token_ids, tree.parent_ids, rule)


@dataclass(frozen=True)
class _Proposal(DraftProposal):
    rule: TreeLayoutRule | None = None

    def to_tree(self, root_token: int) -> DraftTree:
        assert self.rule is not None
        return plugged(super().to_tree(root_token), self.rule)


class LaidOut:
    """A proposer whose trees the engine lays out by `rule`; what it proposes does not change."""

    def __init__(self, proposer: Proposer, rule: TreeLayoutRule) -> None:
        self._proposer, self._rule = proposer, rule

    @property
    def memory_bytes(self) -> int:
        """As of the proposer."""
        return self._proposer.memory_bytes

    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """As the proposer does."""
        made = self._proposer.propose(context_ids, num_draft_tokens)
        parts = made.token_ids, made.draft_probs, made.parent_ids, made.confidences
        return _Proposal(*parts, rule=self._rule)

    def observe(self, token_ids: Sequence[int]) -> None:
        """Passed on."""
        self._proposer.observe(token_ids)

    def forget(self) -> None:
        """Passed on."""
        self._proposer.forget()


def checked(answer: Any, num_nodes: int) -> tuple[list[int], list[list[bool]]]:
    """(positions, mask) in the contract's shape. Raises InputError, saying what is not."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise InputError("tree_layout must return a pair (positions, mask)")
    positions, mask = [int(place) for place in answer[0]], [list(row) for row in answer[1]]
    if len(positions) != num_nodes or min(positions) < 0:
        raise InputError(f"positions must be {num_nodes} numbers of 0 or more, got {positions}")
    if [len(row) for row in mask] != [num_nodes] * num_nodes:
        raise InputError(f"mask must be {num_nodes} rows of {num_nodes} entries")
    return positions, [[bool(seen) for seen in row] for row in mask]
