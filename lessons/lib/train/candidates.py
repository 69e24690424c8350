"""Softmax over the tokens that matter: what the target finds likely in a batch, and a random rest.

The head is most of a small drafter's arithmetic, and nearly all of its rows learn nothing from a
batch. Tokens likely somewhere in the batch are certain candidates; a few of all others are drawn
and stand for the rest, each for as many as were not drawn (importance weights, so that the sum
over the vocabulary has the right expectation). Measurements always use the whole head.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Candidates:
    """ids [c] int64: rows of the head. log_weight [c] float32: log of how many each stands for.
    place [rows of the head] int64: where an id is in `ids`, 0 for those that are not."""

    ids: torch.Tensor
    log_weight: torch.Tensor
    place: torch.Tensor

    def log_probs(self, logits: torch.Tensor) -> torch.Tensor:
        """logits [n, c] -> log of the law of each candidate [n, c] float32."""
        logits = logits.float()
        return logits - (logits + self.log_weight).logsumexp(-1, keepdim=True)

    def pick(self, log_probs: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """log_probs [n, c] of the certain candidates ids [n, k], -1 for none -> [n, k]; any value
        for none."""
        return log_probs.gather(1, self.place[ids.clamp(min=0)])


def draw_candidates(
    wanted: torch.Tensor, num_rows: int, num_drawn: int, generator: torch.Generator
) -> Candidates:
    """wanted int64 of any shape: rows of the head that must be in, -1 for none; num_drawn of the
    other num_rows at random, all of them where there are no more."""
    is_wanted = torch.zeros(num_rows + 1, dtype=torch.bool, device=wanted.device)
    is_wanted[wanted.flatten()] = True  # -1 marks the last, which no row has
    certain = is_wanted[:-1].nonzero()[:, 0]
    others = (~is_wanted[:-1]).nonzero()[:, 0]
    order = torch.randperm(len(others), generator=generator)[:num_drawn].to(others.device)
    ids = torch.cat([certain, others[order]])
    log_weight = torch.zeros(len(ids), device=ids.device)
    if len(order):
        log_weight[len(certain) :] = torch.tensor(len(others) / len(order)).log()
    place = torch.zeros(num_rows, dtype=torch.int64, device=ids.device)
    place[ids] = torch.arange(len(ids), device=ids.device)
    return Candidates(ids, log_weight, place)


def soft_cross_entropy(picked: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
    """Of each row: picked [n, k] log-probabilities of the tokens whose target probabilities are
    probs [n, k], 0 for none; those are first scaled to 1 -> [n]."""
    probs = probs / probs.sum(-1, keepdim=True).clamp(min=1e-6)
    return -(probs * picked).sum(-1)
