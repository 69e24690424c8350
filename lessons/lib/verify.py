"""Which draft tokens the target keeps: pure functions of laws, drafts and random events.

A round verifies k draft tokens with the target's laws at k + 1 positions and always yields one more
token than it accepts: the *recovered* token where a draft was rejected, else the *bonus* token. All
three rules are lossless: what comes out has the target's own law, whatever was proposed.
Rules: Leviathan et al. 2211.17192 and Chen et al. 2302.01318.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lessons.lib.sampling import RandomSource


@dataclass(frozen=True)
class Verification:
    """Outcome of one round. Exactly one of recovered_token and bonus_token is set."""

    accepted_token_ids: list[int]
    recovered_token: int | None = None
    bonus_token: int | None = None

    @property
    def token_ids(self) -> list[int]:
        """Tokens the round yields, in order: the accepted ones and the one after them."""
        last = self.bonus_token if self.recovered_token is None else self.recovered_token
        assert last is not None
        return [*self.accepted_token_ids, last]


def verify_greedy(draft_token_ids: Sequence[int], target_token_ids: Sequence[int]) -> Verification:
    """Accept while the draft is the target's argmax.

    draft_token_ids [k], target_token_ids [k + 1] (argmax at each position).
    """
    for index, (draft, target) in enumerate(zip(draft_token_ids, target_token_ids, strict=False)):
        if draft != target:
            return Verification(list(draft_token_ids[:index]), recovered_token=target)
    return Verification(list(draft_token_ids), bonus_token=target_token_ids[-1])


def verify_delta(
    draft_token_ids: Sequence[int],
    target_probs: torch.Tensor,
    random: RandomSource,
    position: int,
) -> Verification:
    """Drafts that came without a law (n-gram, argmax of a drafter): all mass on one token.

    draft_token_ids [k], target_probs [k + 1, vocab]; `position` is the index of the first draft
    token in the sequence. Draws the target's token and accepts a draft that guessed it. That is the
    ratio test with draft probability one: accepted with probability target_probs[x], and given a
    rejection the drawn token has exactly the residual law. Since the draw at a position does not
    depend on the draft, speculation returns the very tokens that plain sampling would.
    """
    for index, draft in enumerate(draft_token_ids):
        drawn = random.draw(target_probs[index], position + index)
        if drawn != draft:
            return Verification(list(draft_token_ids[:index]), recovered_token=drawn)
    return _accept_all(draft_token_ids, target_probs, random, position)


def verify_sampled(
    draft_token_ids: Sequence[int],
    draft_probs: torch.Tensor,
    target_probs: torch.Tensor,
    random: RandomSource,
    position: int,
) -> Verification:
    """Drafts drawn from known laws: accept with min(1, target / draft), else draw the residual.

    draft_token_ids [k], draft_probs [k, vocab], target_probs [k + 1, vocab]. `draft_probs[i]` must
    be the law draft token i was drawn from, after the same temperature and filters, or the output
    law is wrong without any error being raised.
    """
    for index, draft in enumerate(draft_token_ids):
        ratio = float(target_probs[index, draft]) / float(draft_probs[index, draft])
        if not random.accepts(min(1.0, ratio), position + index):
            residual = residual_probs(target_probs[index], draft_probs[index])
            recovered = random.draw(residual, position + index)
            return Verification(list(draft_token_ids[:index]), recovered_token=recovered)
    return _accept_all(draft_token_ids, target_probs, random, position)


def residual_probs(target_probs: torch.Tensor, draft_probs: torch.Tensor) -> torch.Tensor:
    """Law of the token after a rejection: what the target has above the draft, renormalised.

    Both [vocab] -> [vocab]. Where the two laws are equal a rejection has probability zero; rounding
    may still ask, and then the target's law is the right answer.
    """
    excess = (target_probs - draft_probs).clamp(min=0)
    total = excess.sum()
    return excess / total if total > 0 else target_probs


def _accept_all(
    draft_token_ids: Sequence[int], target_probs: torch.Tensor, random: RandomSource, position: int
) -> Verification:
    bonus = random.draw(target_probs[-1], position + len(draft_token_ids))
    return Verification(list(draft_token_ids), bonus_token=bonus)
