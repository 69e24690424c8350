"""What every drafting method looks like to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from lessons.lib.draft.target_kv import TargetKV
from lessons.lib.tree import DraftTree


@dataclass(frozen=True)
class DraftProposal:
    """Tokens a proposer guesses will follow; may be fewer than asked, even none.

    A chain lists them in order. A tree also has `parent_ids`, one for each token: the index of the
    token it continues, -1 for those that may come first.

    draft_probs float32 [k, vocab], for a tree [k + 1, vocab]: row i is the law, made by
    `logits_to_probs`, that the children of node i were drawn from, where node 0 is the context
    and node i the i-th token, counted from 1. On a chain, row i is thus the law of `token_ids[i]`;
    siblings must have been drawn without replacement. None when tokens were not drawn but picked
    (n-gram, argmax): a delta proposal.

    confidences, of a chain: for each token the drafter's chance that the target accepts it if it
    accepts those before. Must hold: each was settled before its token was drawn.
    """

    token_ids: list[int]
    draft_probs: torch.Tensor | None = None
    parent_ids: list[int] | None = None
    confidences: list[float] | None = None

    def to_tree(self, root_token: int) -> DraftTree:
        """The tree to verify; its root is the last token of the context, which has no KV yet."""
        if self.parent_ids is None:
            return DraftTree.chain([root_token, *self.token_ids])
        return DraftTree.from_draft(root_token, self.token_ids, self.parent_ids)

    def head(self, count: int) -> DraftProposal:
        """The first `count` tokens of a chain as a proposal of their own."""
        assert self.parent_ids is None, "a tree has no first tokens"
        probs, confidences = self.draft_probs, self.confidences
        return DraftProposal(
            self.token_ids[:count],
            None if probs is None else probs[:count],
            confidences=None if confidences is None else confidences[:count],
        )


class Proposer(Protocol):
    """Owns all draft state of one request; knows nothing of the target's KV pool."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of weights and state this proposer holds now, beside the target's."""
        ...

    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """Guess at most num_draft_tokens tokens that continue the context (prompt and output)."""
        ...

    def observe(self, token_ids: Sequence[int]) -> None:
        """Learn which tokens the round committed: drop state built on rejected drafts."""
        ...

    def forget(self) -> None:
        """The request is over: release its state."""
        ...


@runtime_checkable
class FeatureProposer(Proposer, Protocol):
    """A proposer that reads hidden states of the target, whose draft KV is built on them."""

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Layers wanted, by the convention of `model.features`, in the order of concatenation."""
        ...

    def observe_features(
        self, start: int, features: torch.Tensor, next_token_ids: Sequence[int]
    ) -> None:
        """The target's hidden states of committed positions, for state that rests on no guess.

        features [n, len(feature_layers) * hidden] of positions start, start + 1, ...;
        next_token_ids [n] the token behind each. They come in order and without gaps: a prompt in
        chunks, then each round's root and accepted drafts. After a preemption they start again
        at 0; what was known from `start` on is then void.
        """
        ...


@runtime_checkable
class TargetKVReader(Proposer, Protocol):
    """A proposer that looks at the target's own keys and values."""

    def read_target_kv(self, target_kv: TargetKV) -> None:
        """Lent by the engine when the request is added, until `forget`; for reading only. Between
        steps it holds the context but for its last token, or less while a prompt is computed."""
        ...
