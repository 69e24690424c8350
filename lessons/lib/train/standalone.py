"""The small model: the target with most of its layers cut out, taught again by what is left.

It learns to continue the target's own text, by the token and by the target's law (distillation, as
DistillSpec, arXiv 2310.08461, recommends for drafters), with the target's embedding and head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from lessons.lib.draft.net_file import FILE_NAME, load_weights
from lessons.lib.draft.standalone import save_standalone
from lessons.lib.draft.standalone_net import StandaloneConfig, StandaloneNet
from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.candidates import draw_candidates
from lessons.lib.train.data import Sample
from lessons.lib.train.dflash import text_and_law_loss
from lessons.lib.train.held_out import HeldOut, following, has_token, is_response
from lessons.lib.train.target_pass import TargetBatch


@dataclass(frozen=True)
class StandaloneSettings:
    """Layers that stay; the share of the loss that compares with the target's law instead of its
    token; head rows drawn beside the candidates."""

    num_layers: int = 2
    soft_share: float = 0.5
    num_drawn: int = 1024


class StandaloneRecipe:
    """See `Recipe`. It reads no state of the target."""

    name, title = "standalone", "Standalone"
    Settings: Any = StandaloneSettings
    layers: tuple[int, ...] = ()

    def __init__(self, model: LlamaModel, settings: Any, samples: Sequence[Sample]) -> None:
        self.settings, self._model = settings, model
        self.net = StandaloneNet(StandaloneConfig.of(model.config, settings.num_layers), model)
        self.net.start_from(model, kept_layers(model.config.num_layers, settings.num_layers))
        self.net.to(model.device)

    def loss(self, batch: TargetBatch, generator: torch.Generator) -> torch.Tensor:
        """Mean over the tokens of the responses."""
        settings, vocab = self.settings, self._model.config.vocab_size
        places = self._places(batch)
        known = is_response(batch, places) & has_token(batch, places)
        wanted = torch.cat([batch.token_ids.flatten(), batch.top_ids[batch.top_probs > 0]])
        candidates = draw_candidates(wanted, vocab, settings.num_drawn, generator)
        hidden = self.net(batch.token_ids)[known]
        head = F.embedding(candidates.ids, self._model.lm_head).to(hidden.dtype)
        log_probs = candidates.log_probs(F.linear(hidden, head))
        parts = batch, log_probs, places, known, candidates, settings.soft_share
        return text_and_law_loss(*parts).mean()

    @torch.no_grad()
    def measure(self, batch: TargetBatch, num_positions: int) -> HeldOut:
        """From every position. A draft only counts where those before it were the text's, and then
        it saw the text: one pass gives the guesses of all chains."""
        hidden = self.net(batch.token_ids)
        guesses = F.linear(hidden, self._model.lm_head.to(hidden.dtype)).argmax(-1)
        is_right = guesses == following(batch, self._places(batch))
        places = [self._places(batch) + step for step in range(num_positions)]
        rows = [(place - 1).clamp(max=guesses.shape[1] - 1) for place in places]
        return HeldOut.of(
            [is_right.gather(1, row) for row in rows],
            [is_response(batch, place) & has_token(batch, place) for place in places],
        )

    def finish(self, batches: Sequence[TargetBatch]) -> None:
        """Nothing."""

    def save(self, folder: Path) -> None:
        """One file with its config, without embedding and head."""
        save_standalone(self.net, folder / FILE_NAME)

    def load(self, folder: Path) -> None:
        """Those of the same sizes."""
        load_weights(self.net, folder)

    def _places(self, batch: TargetBatch) -> torch.Tensor:
        """[b, t]: the place that each position predicts."""
        count = batch.token_ids.shape[1]
        places = torch.arange(1, count + 1, device=batch.token_ids.device)
        return places.expand(len(batch.token_ids), -1)


def kept_layers(num_layers: int, count: int) -> tuple[int, ...]:
    """`count` layers, evenly spread, with the first, which reads embeddings, and the last, which
    writes what the head reads."""
    if count == 1:
        return (0,)
    return tuple(round(i * (num_layers - 1) / (count - 1)) for i in range(count))
