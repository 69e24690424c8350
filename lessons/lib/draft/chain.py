"""A chain drafted token by token, for every drafter that runs once a token."""

from __future__ import annotations

from collections.abc import Callable

import torch

from lessons.lib.config import SamplingParams
from lessons.lib.draft.lockstep import Drafting, Steps
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.sampling import RandomSource, logits_to_probs, most_likely


def draft_chain(
    logits: torch.Tensor,
    following: Callable[[int], Steps[torch.Tensor]],
    count: int,
    sampling: SamplingParams,
    random: RandomSource,
    position: int,
) -> Drafting:
    """`count` tokens: greedy ones are the likeliest, others are drawn and bring their laws.

    logits [vocab] of the first one; following(token_id) gives those behind a token that was just
    drafted, and is called count - 1 times. position: index of the first draft in the text.
    """
    token_ids: list[int] = []
    laws: list[torch.Tensor] = []
    while True:
        if sampling.is_greedy:
            token_ids.append(int(most_likely(logits)))
        else:
            laws.append(logits_to_probs(logits, sampling))
            token_ids.append(random.draw(laws[-1], position + len(token_ids)))
        if len(token_ids) == count:
            return DraftProposal(token_ids, torch.stack(laws) if laws else None)
        logits = yield from following(token_ids[-1])
