"""Lesson 7: the engine verifies its chains with a student's `verify_chain`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.sampling import RandomSource, SeededRandom, logits_to_probs
from lessons.lib.tree import DraftTree
from lessons.lib.tree_verify import TreeVerification
from lessons.lib.verify_round import VerifyRound

Rows = list[list[float]]
VerifyChain = Callable[[list[int], Rows, Rows, list[float]], tuple[int, Sequence[float]]]


def chain_rule(verify_chain: VerifyChain) -> VerifyRound:
    """A rule for `Engine(verify=…)` that leaves every decision to `verify_chain`.

    Drafts that came without a law (n-gram) get one that is certain of them. The rows hold only the
    tokens that some law gives a chance, under new ids from 0: under greedy decoding or top-k those
    are few, so plain lists are quick. Raises InputError for a tree and for an answer that is none.
    """

    def rule(
        proposal: DraftProposal,
        tree: DraftTree,
        logits: torch.Tensor,
        target_token_ids: torch.Tensor,
        sampling: SamplingParams,
        random: RandomSource,
        position: int,
    ) -> TreeVerification:
        if proposal.parent_ids is not None or not isinstance(random, SeededRandom):
            raise InputError("verify_chain verifies chains; use a proposer without branches")
        drafts, target = proposal.token_ids, logits_to_probs(logits, sampling)
        draft = proposal.draft_probs
        if draft is None:
            certain = torch.tensor(drafts, dtype=torch.long, device=target.device)
            draft = torch.nn.functional.one_hot(certain, target.shape[-1]).float()
        used = torch.cat([target, draft]).amax(0).nonzero().flatten()
        new_id = {token: number for number, token in enumerate(used.tolist())}
        answer = verify_chain(
            [new_id[token] for token in drafts],
            draft[:, used].double().tolist(),
            target[:, used].double().tolist(),
            [random.coin(position + number) for number in range(len(drafts))],
        )
        num_accepted, law = checked(answer, len(drafts), len(used))
        next_probs = torch.zeros(target.shape[-1], dtype=torch.float64, device=target.device)
        next_probs[used] = torch.tensor(law, dtype=torch.float64, device=target.device)
        token = random.draw(next_probs, position + num_accepted)
        is_bonus = num_accepted == len(drafts)
        return TreeVerification(
            drafts[:num_accepted],
            recovered_token=None if is_bonus else token,
            bonus_token=token if is_bonus else None,
            accepted_path=tuple(range(1 + num_accepted)),
        )

    return rule


def checked(answer: Any, num_drafts: int, num_tokens: int) -> tuple[int, list[float]]:
    """(num_accepted, next_probs) as the contract has it. Raises InputError, saying what is not."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise InputError("verify_chain must return a pair (num_accepted, next_probs)")
    num_accepted, law = answer
    if isinstance(num_accepted, bool) or num_accepted not in range(num_drafts + 1):
        raise InputError(f"num_accepted must be 0 to {num_drafts}, got {num_accepted!r}")
    if not hasattr(law, "__len__"):
        raise InputError(f"next_probs must be a list of {num_tokens} numbers")
    if len(law) != num_tokens:
        raise InputError(f"next_probs must hold {num_tokens} numbers, got {len(law)}")
    law = [float(value) for value in law]
    if min(law) < 0 or not math.isclose(sum(law), 1.0, rel_tol=1e-4):
        raise InputError(f"next_probs must be a law: not negative, sum 1, got sum {sum(law):g}")
    return int(num_accepted), law
