"""Lab 8D: the EAGLE-3 proposer grows its draft trees with a student's functions.

And what they are compared with: the best tree whose shape is fixed, of as many nodes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernels.runtime import InputError
from lessons.lib.bench.draft_trees import NUM_LEVELS, WIDTH
from lessons.lib.bench.workload import Prompt
from lessons.lib.cost_tree import TreeShape, greedy_tree
from lessons.lib.draft.beam_tree import NO_PARENT, BeamTree
from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.draft.eagle3_file import SHIPPED, load_eagle3
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.draft.static_tree import static_drafter
from lessons.lib.engine import Engine
from lessons.lib.metrics import RoundRecord, acceptance_length
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.tokenizer import Tokenizer

GrowBeam = Callable[[list[int], list[float], int], Any]
Rerank = Callable[[list[int], list[float], int], Any]

# The chance that the j-th guess behind an accepted node is the target's token, on the prompts of
# "main": from course/results/draft_trees.json.
RANK_ACCEPTANCE = (0.403, 0.107, 0.047, 0.022)


class AskedTree(BeamTree):
    """A draft tree that leaves all decisions to `grow_beam` and `rerank`."""

    def __init__(self, width: int, grow_beam: GrowBeam, rerank: Rerank) -> None:
        super().__init__(width)
        self._grow_beam, self._rerank = grow_beam, rerank
        self._log_probs: list[float] = []

    def expand(self, log_probs: torch.Tensor, token_ids: torch.Tensor) -> None:
        """As a beam tree does. InputError for an answer that is not in the contract's shape."""
        rows = zip(self.beam, log_probs.tolist(), token_ids.tolist(), strict=True)
        for parent, row, tokens in rows:
            self._log_probs += [min(value, 0.0) for value in row]  # rounding may end above 0
            self._token_ids += tokens
            self._parents += [parent] * len(tokens)
        answer = self._grow_beam(list(self._parents), list(self._log_probs), self.width)
        self._scores, self.beam = as_beam(answer, len(self._parents))

    def select(self, num_nodes: int) -> DraftProposal:
        """As a beam tree does. InputError for an answer that is not in the contract's shape."""
        answer = self._rerank(list(self._parents), list(self._scores), num_nodes)
        nodes, parents = as_tree(answer, len(self._parents))
        return DraftProposal([self._token_ids[node] for node in nodes], parent_ids=parents)


def as_beam(answer: Any, num_candidates: int) -> tuple[list[float], list[int]]:
    """(scores, beam) in the contract's shape. Raises InputError, saying what is not."""
    scores, beam = _pair(answer, "grow_beam", "(scores, beam)")
    if len(scores) != num_candidates:
        raise InputError(f"grow_beam: {num_candidates} scores are needed, got {len(scores)}")
    if not beam:
        raise InputError("grow_beam: the beam is empty")
    return [float(score) for score in scores], _indices(beam, num_candidates, "grow_beam: beam")


def as_tree(answer: Any, num_candidates: int) -> tuple[list[int], list[int]]:
    """(nodes, parent_ids) in the contract's shape. Raises InputError, saying what is not."""
    nodes, parents = _pair(answer, "rerank", "(nodes, parent_ids)")
    if len(nodes) != len(parents):
        raise InputError(f"rerank: {len(nodes)} nodes need as many parents, got {len(parents)}")
    if any(not NO_PARENT <= int(parent) < place for place, parent in enumerate(parents)):
        raise InputError("rerank: a parent is -1 or the place of an earlier node")
    return _indices(nodes, num_candidates, "rerank: nodes"), [int(parent) for parent in parents]


def _pair(answer: Any, name: str, shape: str) -> tuple[list[Any], list[Any]]:
    try:
        first, second = answer
        return list(first), list(second)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must return a pair {shape} of lists") from error


def _indices(values: Sequence[Any], count: int, what: str) -> list[int]:
    indices = [int(value) for value in values]
    if len(set(indices)) < len(indices) or any(not 0 <= index < count for index in indices):
        raise InputError(f"{what} must be different candidates from 0 to {count - 1}")
    return indices


class TreePair:
    """Greedy runs of the engine with a student's trees and, beside them, with the best fixed tree
    of as many guesses. Acceptance only; no clock is read."""

    def __init__(
        self,
        model: LlamaModel,
        tokenizer: Tokenizer,
        grow_beam: GrowBeam,
        rerank: Rerank,
        num_draft_tokens: int,
    ) -> None:
        self._engine, self._net = Engine(model, tokenizer), load_eagle3(SHIPPED, model)
        self._new_tree = functools.partial(AskedTree, grow_beam=grow_beam, rerank=rerank)
        self._num_draft_tokens = num_draft_tokens
        self.shape = static_shape(num_draft_tokens)
        self.num_prompts = 0
        self._grown: list[RoundRecord] = []
        self._fixed: list[RoundRecord] = []

    def run(self, prompt: Prompt, num_new_tokens: int) -> bool:
        """One prompt with either; whether both wrote the same text."""
        model, net, size = self._engine.model, self._net, self._num_draft_tokens
        ids = prompt.token_ids(self._engine.tokenizer)
        theirs = Eagle3Proposer(net, model.embedding, None, WIDTH, NUM_LEVELS, self._new_tree)
        ours = static_drafter(model, net, self.shape)
        grown = self._engine.generate(ids, num_new_tokens, None, theirs, size)
        fixed = self._engine.generate(ids, num_new_tokens, None, ours, size)
        self._grown += grown.rounds
        self._fixed += fixed.rounds
        self.num_prompts += 1
        return grown.token_ids == fixed.token_ids

    @property
    def grown(self) -> float:
        """Tokens a round with the student's trees, of all prompts so far."""
        return acceptance_length(self._grown) or 1.0

    @property
    def fixed(self) -> float:
        """Tokens a round with the fixed tree."""
        return acceptance_length(self._fixed) or 1.0

    @property
    def ratio(self) -> float:
        """The one over the other."""
        return self.grown / self.fixed


def static_shape(num_draft_tokens: int) -> TreeShape:
    """The best fixed shape of so many guesses, by the acceptance of each rank."""
    return greedy_tree(RANK_ACCEPTANCE, 1 + num_draft_tokens, NUM_LEVELS)
