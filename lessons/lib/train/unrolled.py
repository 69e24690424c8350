"""What EAGLE-3, MTP and FROZEN_KV_MTP share in training: from a start, one step after the other.

A start s is a text that the target has read up to position s. Step j knows the text's tokens up to
s + 1 + j and the states that the steps before it passed on, and predicts token s + 2 + j.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.candidates import draw_candidates
from lessons.lib.train.dflash import text_and_law_loss
from lessons.lib.train.held_out import HeldOut, following, has_token
from lessons.lib.train.target_pass import TargetBatch
from lessons.lib.train.unroll import learnt_rows

STEP_WEIGHT = 0.8  # of step i to the power of i, as the authors of EAGLE-3

Steps = Iterator[tuple[torch.Tensor, torch.Tensor]]


class UnrolledRecipe:
    """Most of a `Recipe` whose `unroll` gives, for each step, (starts [m], rows [b, m, hidden])."""

    settings: Any  # with num_unrolled and unrolled_share, and for `loss` soft_share and num_drawn
    _model: LlamaModel

    def unroll(
        self, batch: TargetBatch, num_steps: int, starts: torch.Tensor | None = None
    ) -> Steps:
        """Step 0 from every position, later ones from `starts` (all where None)."""
        raise NotImplementedError

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Rows [n, hidden] -> [n, vocab]: the target's head, unless it has its own."""
        return F.linear(hidden, self._model.lm_head.to(hidden.dtype))

    def loss(self, batch: TargetBatch, generator: torch.Generator) -> torch.Tensor:
        """Sum over the steps of 0.8^i times the mean cross-entropy through the target's head."""
        settings, vocab = self.settings, self._model.config.vocab_size
        wanted = torch.cat([batch.token_ids.flatten(), batch.top_ids[batch.top_probs > 0]])
        candidates = draw_candidates(wanted, vocab, settings.num_drawn, generator)
        head = F.embedding(candidates.ids, self._model.lm_head)
        steps = self.unroll(batch, settings.num_unrolled, self.draw_starts(batch, generator))
        total = torch.zeros((), device=self._model.device)
        for step, (starts, hidden) in enumerate(steps):
            places = (starts + 2 + step).expand(len(batch.token_ids), -1)
            known = learnt_rows(batch, starts, step) & has_token(batch, places)
            if not known.any():
                continue
            log_probs = candidates.log_probs(F.linear(hidden[known], head.to(hidden.dtype)))
            parts = batch, log_probs, places, known, candidates, settings.soft_share
            total = total + STEP_WEIGHT**step * text_and_law_loss(*parts).mean()
        return total

    @torch.no_grad()
    def measure(self, batch: TargetBatch, num_positions: int) -> HeldOut:
        """Greedy drafts from every position."""
        hits, known = [], []
        for step, (starts, hidden) in enumerate(self.unroll(batch, num_positions)):
            # The row behind the last one known has no token to meet.
            is_known = learnt_rows(batch, starts, step) & has_token(batch, starts + 2 + step)
            guesses = torch.zeros_like(batch.token_ids)
            guesses[is_known] = self.logits(hidden[is_known]).argmax(-1)
            hits.append(guesses == following(batch, starts + 2 + step))
            known.append(is_known)
        return HeldOut.of(hits, known)

    def finish(self, batches: Sequence[TargetBatch]) -> None:
        """Nothing."""

    def draw_starts(self, batch: TargetBatch, generator: torch.Generator) -> torch.Tensor:
        """Some of the positions from which a response is drafted."""
        first = max(0, int(batch.prompt_lens.min()) - 2)
        places = batch.token_ids.shape[1] - first
        count = max(1, round(self.settings.unrolled_share * places))
        return first + torch.randperm(places, generator=generator)[:count].sort().values
