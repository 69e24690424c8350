"""One round's verification: the rule that its proposal and its sampling parameters call for."""

from __future__ import annotations

from typing import Protocol

import torch

from lessons.lib.config import SamplingParams
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.sampling import RandomSource, logits_to_probs
from lessons.lib.tree import DraftTree
from lessons.lib.tree_verify import (
    TreeVerification,
    verify_tree_delta,
    verify_tree_greedy,
    verify_tree_without_replacement,
)
from lessons.lib.verify import Verification, verify_delta, verify_greedy, verify_sampled


class VerifyRound(Protocol):
    """The rule of a round; `verify_round` below is the engine's own."""

    def __call__(
        self,
        proposal: DraftProposal,
        tree: DraftTree,
        logits: torch.Tensor,
        target_token_ids: torch.Tensor,
        sampling: SamplingParams,
        random: RandomSource,
        position: int,
    ) -> TreeVerification:
        """See `verify_round`."""
        ...


def verify_round(
    proposal: DraftProposal,
    tree: DraftTree,
    logits: torch.Tensor,
    target_token_ids: torch.Tensor,
    sampling: SamplingParams,
    random: RandomSource,
    position: int,
) -> TreeVerification:
    """The path that stays and the tokens it yields.

    logits [num_nodes, vocab] of the nodes of `tree`, which is the proposal's; target_token_ids
    [num_nodes] their argmax, read by the greedy rules only; `position` is the index of the root's
    children in the text. All rules chosen from are lossless.
    """
    if proposal.parent_ids is not None:
        return _verify_tree(proposal, tree, logits, target_token_ids, sampling, random, position)
    outcome = _verify_chain(proposal, logits, target_token_ids, sampling, random, position)
    return TreeVerification(
        outcome.accepted_token_ids,
        outcome.recovered_token,
        outcome.bonus_token,
        accepted_path=tuple(range(1 + len(outcome.accepted_token_ids))),
    )


def _verify_chain(
    proposal: DraftProposal,
    logits: torch.Tensor,
    target_token_ids: torch.Tensor,
    sampling: SamplingParams,
    random: RandomSource,
    position: int,
) -> Verification:
    drafts = proposal.token_ids
    if sampling.is_greedy:
        return verify_greedy(drafts, target_token_ids.tolist())
    target_probs = logits_to_probs(logits, sampling)
    if proposal.draft_probs is None:
        return verify_delta(drafts, target_probs, random, position)
    return verify_sampled(drafts, proposal.draft_probs, target_probs, random, position)


def _verify_tree(
    proposal: DraftProposal,
    tree: DraftTree,
    logits: torch.Tensor,
    target_token_ids: torch.Tensor,
    sampling: SamplingParams,
    random: RandomSource,
    position: int,
) -> TreeVerification:
    if sampling.is_greedy:
        return verify_tree_greedy(tree, target_token_ids)
    target_probs = logits_to_probs(logits, sampling)
    if proposal.draft_probs is None:
        return verify_tree_delta(tree, target_probs, random, position)
    draft_probs = proposal.draft_probs
    return verify_tree_without_replacement(tree, target_probs, draft_probs, random, position)
