"""EAGLE-3: training-time test, soft cross-entropy with the target's law (arXiv 2503.01840)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from lessons.lib.draft.eagle3_file import load_eagle3, save_eagle3
from lessons.lib.draft.eagle3_net import Eagle3Config, Eagle3Net
from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.candidates import draw_candidates, soft_cross_entropy
from lessons.lib.train.data import Sample, frequent_ids
from lessons.lib.train.target_pass import TargetBatch
from lessons.lib.train.unroll import learnt_rows, unroll
from lessons.lib.train.unrolled import STEP_WEIGHT, Steps, UnrolledRecipe

_LEAST_MASS = 0.3  # of a law on tokens that the drafter has


@dataclass(frozen=True)
class Eagle3Settings:
    """draft_vocab_size; steps of the training-time test; the share of positions, drawn anew each
    batch, that go beyond the first step; head rows drawn beside the candidates."""

    draft_vocab_size: int = 16_384
    num_unrolled: int = 4
    unrolled_share: float = 0.34
    num_drawn: int = 1024


class Eagle3Recipe(UnrolledRecipe):
    """See `Recipe`."""

    name, title = "eagle3", "EAGLE-3"
    Settings: Any = Eagle3Settings

    def __init__(self, model: LlamaModel, settings: Any, samples: Sequence[Sample]) -> None:
        self.settings, self._model = settings, model
        config = Eagle3Config.of(model.config, settings.draft_vocab_size)
        self.layers = config.feature_layers
        self.net = Eagle3Net(config)
        vocab = model.config.vocab_size
        self.net.set_vocabulary(frequent_ids(samples, settings.draft_vocab_size, vocab))
        self.net.start_from(model)
        self.net.to(model.device)

    def unroll(
        self, batch: TargetBatch, num_steps: int, starts: torch.Tensor | None = None
    ) -> Steps:
        """The training-time test."""
        features = batch.features(self.layers)
        return unroll(self.net, self._model.embedding, batch, features, num_steps, starts)

    def loss(self, batch: TargetBatch, generator: torch.Generator) -> torch.Tensor:
        """Sum over the steps of 0.8^i times the mean soft cross-entropy of the rows."""
        draft_ids = self._draft_ids()[batch.top_ids]
        candidates = draw_candidates(
            draft_ids[batch.top_probs > 0],
            self.settings.draft_vocab_size,
            self.settings.num_drawn,
            generator,
        )
        head = F.embedding(candidates.ids, self.net.lm_head.weight)
        steps = self.unroll(batch, self.settings.num_unrolled, self.draw_starts(batch, generator))
        total = torch.zeros((), device=self._model.device)
        for step, (starts, hidden) in enumerate(steps):
            behind = (starts + 1 + step).clamp(max=batch.token_ids.shape[1] - 1)
            wanted = draft_ids[:, behind]
            probs = batch.top_probs[:, behind] * (wanted >= 0)
            # Where the drafter cannot say what the target would, there is nothing to learn.
            is_learnt = learnt_rows(batch, starts, step) & (probs.sum(-1) > _LEAST_MASS)
            if not is_learnt.any():
                continue
            logits = F.linear(self.net.norm(hidden[is_learnt]), head)
            picked = candidates.pick(candidates.log_probs(logits), wanted[is_learnt])
            loss = soft_cross_entropy(picked, probs[is_learnt]).mean()
            total = total + STEP_WEIGHT**step * loss
        return total

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Over the draft vocabulary; -inf for the rest."""
        return self.net.target_logits(hidden)

    def save(self, folder: Path) -> None:
        """The authors' layout."""
        save_eagle3(self.net, folder)

    def load(self, folder: Path) -> None:
        """With the draft vocabulary of those weights."""
        self.net.load_state_dict(load_eagle3(folder, self._model).state_dict())

    def _draft_ids(self) -> torch.Tensor:
        """Draft id of every target id [vocab] int64, -1 where there is none."""
        ids = torch.full((self._model.config.vocab_size,), -1, device=self._model.device)
        ids[self.net.target_ids] = torch.arange(len(self.net.d2t), device=ids.device)
        return ids
