"""From logits to a law, and from a law to a token.

`logits_to_probs` is the only place where logits become probabilities. Draft and target both call
it, so the law a draft is scored with is the law it was drawn from; most published bugs of
speculative sampling are a violation of that one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from lessons.lib.config import SamplingParams


def most_likely(logits: torch.Tensor) -> torch.Tensor:
    """[..., vocab] -> [...] int64, the lowest id when logits tie.

    As `argmax`, which torch runs four times slower on bfloat16 rows of a vocabulary on a CPU.
    """
    return logits.max(-1).indices


def logits_to_probs(logits: torch.Tensor, sampling: SamplingParams) -> torch.Tensor:
    """Law of the next token: temperature, then top-k, then top-p.

    logits [..., vocab] any float dtype -> probs [..., vocab] float32, rows sum to one.
    Temperature 0 gives a one-hot row on the argmax (the lowest id when logits tie).
    """
    logits = logits.float()
    if sampling.is_greedy:
        return torch.zeros_like(logits).scatter_(-1, most_likely(logits)[..., None], 1.0)
    logits = logits / sampling.temperature
    if 0 < sampling.top_k < logits.shape[-1]:
        smallest_kept = logits.topk(sampling.top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < smallest_kept, -torch.inf)
    probs = logits.softmax(-1)
    return _keep_nucleus(probs, sampling.top_p) if sampling.top_p < 1 else probs


def _keep_nucleus(probs: torch.Tensor, top_p: float) -> torch.Tensor:
    """Smallest set of likeliest tokens whose mass reaches top_p, renormalised."""
    ordered, order = probs.sort(dim=-1, descending=True, stable=True)
    mass_before = ordered.cumsum(-1) - ordered
    ordered = ordered.masked_fill(mass_before >= top_p, 0.0)  # the likeliest always stays
    kept = torch.zeros_like(probs).scatter_(-1, order, ordered)
    return kept / kept.sum(-1, keepdim=True)


class RandomSource(Protocol):
    """The two random events of verification, so that a test can enumerate them instead."""

    def accepts(self, probability: float, position: int) -> bool:
        """True with the given probability; `position` is the index of the token decided on."""
        ...

    def draw(self, probs: torch.Tensor, position: int) -> int:
        """A token id from probs [vocab]."""
        ...


class SeededRandom:
    """Stateless random numbers: each depends on (seed, position, purpose) alone.

    A request therefore gets the same numbers whatever its depth, its neighbours in a batch, or how
    many drafts were thrown away before. Two purposes at one position are independent.
    """

    _ACCEPT, _TARGET, _DRAFT = range(3)

    def __init__(self, seed: int, is_draft: bool = False) -> None:
        self._seed = seed
        self._draw_purpose = self._DRAFT if is_draft else self._TARGET

    def accepts(self, probability: float, position: int) -> bool:
        """True with the given probability."""
        return self.coin(position) < probability

    def coin(self, position: int) -> float:
        """The number in [0, 1) that `accepts` compares with."""
        return self._uniform(position, self._ACCEPT)

    def draw(self, probs: torch.Tensor, position: int) -> int:
        """Inverse of the cumulative law, in float64. probs [vocab] -> token id."""
        cumulative = probs.double().cumsum(-1)
        threshold = self._uniform(position, self._draw_purpose) * cumulative[-1]
        # right=True steps over tokens of probability zero, which top-k and top-p leave behind.
        return int(torch.searchsorted(cumulative, threshold, right=True))

    def draw_rows(self, probs: torch.Tensor, positions: Sequence[int]) -> torch.Tensor:
        """`draw` of every row at its position: probs [n, vocab] -> token ids [n] int64, where the
        laws are. The host does not wait for them."""
        uniforms = [self._uniform(position, self._draw_purpose) for position in positions]
        cumulative = probs.double().cumsum(-1)
        threshold = torch.tensor(uniforms, dtype=torch.float64).to(probs.device)[:, None]
        drawn = torch.searchsorted(cumulative, threshold * cumulative[:, -1:], right=True)
        return drawn[:, 0]

    def _uniform(self, position: int, purpose: int) -> float:
        bits = np.random.Philox(key=self._seed, counter=[0, 0, purpose, position])
        return float(np.random.Generator(bits).random())
