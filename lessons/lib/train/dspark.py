"""DSpark: DFlash's blocks, and beside cross-entropy total variation and confidence (2607.05147)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from kernels.runtime import InputError
from lessons.lib.draft.dflash import load_dflash
from lessons.lib.draft.dspark import load_dspark, save_dspark
from lessons.lib.draft.dspark_calibration import fit_temperatures
from lessons.lib.draft.dspark_net import DSparkConfig, DSparkNet
from lessons.lib.draft.net_file import read_config
from lessons.lib.train.candidates import Candidates
from lessons.lib.train.dflash import FILE, DFlashRecipe, DFlashSettings, target_law
from lessons.lib.train.held_out import following, has_token
from lessons.lib.train.target_pass import TargetBatch

_CROSS_ENTROPY, _VARIATION, _CONFIDENCE = 0.1, 0.9, 1.0  # weights of the losses, as the authors
_CALIBRATED_EVERY = 5  # positions


@dataclass(frozen=True)
class DSparkSettings(DFlashSettings):
    """block_size is the number of drafts. markov_rank: of the head that sees the token before."""

    block_size: int = 7
    markov_rank: int = 64


class DSparkRecipe(DFlashRecipe):
    """See `Recipe`."""

    name, title, Settings = "dspark", "DSpark", DSparkSettings
    net: DSparkNet

    def make_net(self) -> DSparkNet:
        """The Markov head starts without a say: the network is then its backbone."""
        config = DSparkConfig(**self.config_fields(), markov_rank=self.settings.markov_rank)
        net = DSparkNet(config)
        torch.nn.init.zeros_(net.markov_head.markov_w2.weight)
        return net

    def row_losses(
        self,
        batch: TargetBatch,
        hidden: torch.Tensor,
        places: torch.Tensor,
        known: torch.Tensor,
        candidates: Candidates,
    ) -> torch.Tensor:
        """As DFlash's, each row knowing the text's token before its own."""
        heads = self.net.markov_head
        previous = following(batch, places - 1)[known]
        before = heads.markov_w1(previous)
        head = F.embedding(candidates.ids, self._model.lm_head).to(hidden.dtype)
        bias = F.linear(before, F.embedding(candidates.ids, heads.markov_w2.weight))
        log_probs = candidates.log_probs(F.linear(hidden, head) + bias)
        ids, probs = target_law(batch, places, known)
        overlap = torch.minimum(candidates.pick(log_probs, ids).exp(), probs).sum(-1)
        doubt = self.net.doubt(hidden, previous)
        assert doubt is not None
        confidence = F.binary_cross_entropy_with_logits(
            doubt.float(), overlap.detach().clamp(0, 1), reduction="none"
        )
        return (
            _CROSS_ENTROPY * self.cross_entropy(batch, log_probs, places, known, candidates)
            + _VARIATION * 2 * (1 - overlap)
            + _CONFIDENCE * confidence
        )

    def drafts(
        self, batch: TargetBatch, anchors: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Draft by draft, each behind the one before."""
        hidden = self.blocks(batch, anchors)
        previous = batch.token_ids.gather(1, anchors).flatten()
        guesses, doubts = [], []
        for row in hidden.flatten(0, 1).unbind(1):
            bias, doubt = self.net.follow(row, previous)
            previous = (F.linear(row, self._model.lm_head.to(row.dtype)) + bias).argmax(-1)
            guesses.append(previous)
            doubts.append(doubt)
        shape = hidden.shape[:3]
        return torch.stack(guesses, -1).view(shape), torch.stack(doubts, -1).view(shape)

    @torch.no_grad()
    def finish(self, batches: Sequence[TargetBatch]) -> None:
        """Fit the temperatures of the confidences."""
        logits, accepted = [], []
        for batch in batches:
            first, last = int(batch.prompt_lens.min()) - 1, batch.token_ids.shape[1]
            anchors = torch.arange(first, last, _CALIBRATED_EVERY, device=batch.token_ids.device)
            anchors = anchors.expand(len(batch.token_ids), -1)
            guesses, doubts = self.drafts(batch, anchors)
            assert doubts is not None
            steps = torch.arange(1, guesses.shape[2] + 1, device=anchors.device)
            places = (anchors[:, :, None] + steps).flatten(1)
            hits = (guesses.flatten(1) == following(batch, places)).unflatten(1, (-1, len(steps)))
            is_whole = has_token(batch, anchors + len(steps))
            is_whole &= anchors >= batch.prompt_lens[:, None] - 1
            logits.append(doubts[is_whole].double().cpu().numpy())
            accepted.append(hits[is_whole].long().cumprod(-1).sum(-1).cpu().numpy())
        if not sum(map(len, logits)):
            raise InputError("no held-out text is long enough to fit the confidences' temperatures")
        found = fit_temperatures(np.concatenate(logits), np.concatenate(accepted))
        self.net.config = replace(self.net.config, temperatures=tuple(found))

    def save(self, folder: Path) -> None:
        """One file with its config, temperatures in it."""
        save_dspark(self.net, folder / FILE)

    def load(self, folder: Path) -> None:
        """Those of the same sizes, or a DFlash backbone without the two heads."""
        is_whole = "markov_rank" in read_config(folder / FILE)
        read = load_dspark if is_whole else load_dflash
        state = read(folder / FILE, self._model).state_dict()
        self.net.load_state_dict(self.net.state_dict() | state)
