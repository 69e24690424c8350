"""The dynamic draft tree of EAGLE-2 and -3: a beam search whose best nodes become the tree.

Expand: every node of the beam gets its likeliest children; the best of them by cumulative
log-probability are the next beam. Select: of all nodes ever seen the best few. A child is never
likelier than its parent, so what is selected hangs together.
"""

from __future__ import annotations

import torch

from lessons.lib.draft.proposer import DraftProposal

NO_PARENT = -1


class BeamTree:
    """Candidates in the order they were found; parents come before children."""

    def __init__(self, width: int) -> None:
        """width: nodes of a level that are expanded, and children of each that are looked at."""
        self.width = width
        self.beam: list[int] = [NO_PARENT]  # candidates of the last level that go on
        self._token_ids: list[int] = []
        self._parents: list[int] = []
        self._scores: list[float] = []  # cumulative log-probabilities

    def expand(self, log_probs: torch.Tensor, token_ids: torch.Tensor) -> None:
        """Children of the beam: [len(beam), width] each, likeliest first."""
        first = len(self._scores)
        for parent, row, tokens in zip(
            self.beam, log_probs.tolist(), token_ids.tolist(), strict=True
        ):
            base = 0.0 if parent == NO_PARENT else self._scores[parent]
            self._scores += [base + value for value in row]
            self._token_ids += tokens
            self._parents += [parent] * len(tokens)
        self.beam = sorted(self._best(range(first, len(self._scores)), self.width))

    @property
    def beam_tokens(self) -> list[int]:
        """Tokens of the beam."""
        return [self._token_ids[node] for node in self.beam]

    def beam_parents(self, previous: list[int]) -> list[int]:
        """Of each node of the beam, the row of its parent in the previous beam."""
        return [previous.index(self._parents[node]) for node in self.beam]

    @property
    def candidates(self) -> list[tuple[int, int, float]]:
        """(token id, parent, score) of all found so far, in that order."""
        return list(zip(self._token_ids, self._parents, self._scores, strict=True))

    def select(self, num_nodes: int) -> DraftProposal:
        """The tree of the best nodes: a delta proposal, since nothing in it was drawn."""
        return self._proposal(self._best(range(len(self._scores)), num_nodes))

    def _proposal(self, nodes: list[int]) -> DraftProposal:
        """The tree of these candidates, which hold the parents of each other."""
        chosen = sorted(nodes)
        place = {node: index for index, node in enumerate(chosen)} | {NO_PARENT: NO_PARENT}
        parents = [place[self._parents[node]] for node in chosen]
        return DraftProposal([self._token_ids[node] for node in chosen], parent_ids=parents)

    def _best(self, nodes: range, count: int) -> list[int]:
        """Of equals the one found first, so that a parent comes before a child as likely."""
        return sorted(nodes, key=lambda node: -self._scores[node])[:count]
