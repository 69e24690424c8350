"""A draft tree whose shape was settled before the text was seen, as in EAGLE-1, Medusa or Sequoia.

Which rank of guess stands where is fixed; only the tokens are the drafter's. What a dynamic tree of
as many nodes is compared with.
"""

from __future__ import annotations

import functools

import torch

from lessons.lib.cost_tree import TreeShape
from lessons.lib.draft.beam_tree import NO_PARENT, BeamTree
from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.draft.eagle3_net import Eagle3Net
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.model.llama import LlamaModel


class StaticTree(BeamTree):
    """Grows like a beam tree, level by level, but goes on where the shape does."""

    def __init__(self, width: int, shape: TreeShape) -> None:
        """width: children of a node that are looked at, more than the largest rank of the shape."""
        super().__init__(width)
        self._shape = shape
        self._rows = [0]  # nodes of the shape that the beam's rows stand for; 0 is the root
        self._candidates: dict[int, int] = {0: NO_PARENT}  # node of the shape -> candidate

    def expand(self, log_probs: torch.Tensor, token_ids: torch.Tensor) -> None:
        """Children of the beam, as for a beam tree."""
        first, rows = len(self._scores), self._rows
        super().expand(log_probs, token_ids)
        parents, ranks = self._shape.parents, self._shape.ranks
        placed = [node for node, parent in enumerate(parents) if parent in rows]
        for node in placed:
            row = rows.index(parents[node])
            self._candidates[node] = first + row * self.width + ranks[node]
        self._rows = [node for node in placed if node in parents]
        self.beam = [self._candidates[node] for node in self._rows]

    def select(self, num_nodes: int) -> DraftProposal:
        """The first num_nodes of the shape's guesses that there are."""
        nodes = sorted(node for node in self._candidates if node > 0)[:num_nodes]
        return self._proposal([self._candidates[node] for node in nodes])


def static_drafter(model: LlamaModel, net: Eagle3Net, shape: TreeShape) -> Eagle3Proposer:
    """EAGLE-3 for one request of `model`, drafting this shape whatever it is sure of."""
    new_tree = functools.partial(StaticTree, shape=shape)
    width = max(2, 1 + max(shape.ranks))
    return Eagle3Proposer(net, model.embedding, None, width, shape.depth, new_tree)
