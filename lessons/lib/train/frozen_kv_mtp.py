"""FROZEN_KV_MTP: cross-entropy of every step, on the target's own keys and values.

How the Gemma 4 assistants were trained is not published; the loss is MTP's, and the steps are those
that the drafter takes: every query of a start stands at the start and sees the target's keys up to
it, and only the state that is passed on tells of the drafts before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from lessons.lib.draft.decoder import KeyValue, attend
from lessons.lib.draft.frozen_kv_mtp import (
    load_frozen_kv_mtp,
    save_frozen_kv_mtp,
)
from lessons.lib.draft.frozen_kv_net import FrozenKvConfig, FrozenKvNet
from lessons.lib.draft.net_file import FILE_NAME
from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.data import Sample
from lessons.lib.train.mtp import MtpSettings
from lessons.lib.train.target_pass import TargetBatch
from lessons.lib.train.unrolled import Steps, UnrolledRecipe


@dataclass(frozen=True)
class FrozenKvSettings(MtpSettings):
    """num_layers: draft layers, which read the target's last ones. There is no KV of steps to hold,
    so all positions may go on."""

    num_layers: int = 2
    unrolled_share: float = 0.5


class FrozenKvMtpRecipe(UnrolledRecipe):
    """See `Recipe`. layers: those that are read, by what enters them, and the target's last state:
    keys and values are made of the first, as the target makes them."""

    name, title = "frozen_kv_mtp", "FROZEN_KV_MTP"
    Settings: Any = FrozenKvSettings

    def __init__(self, model: LlamaModel, settings: Any, samples: Sequence[Sample]) -> None:
        self.settings, self._model = settings, model
        config = FrozenKvConfig.of(model.config, settings.num_layers)
        self.net = FrozenKvNet(config, model)
        self.net.start_from(model)
        self.net.to(model.device)
        self.layers = tuple(sorted({*config.kv_layers, *config.feature_layers}))

    def unroll(
        self, batch: TargetBatch, num_steps: int, starts: torch.Tensor | None = None
    ) -> Steps:
        """The same query positions and the same keys at every step."""
        tokens, net = batch.token_ids, self.net
        count = tokens.shape[1]
        every = torch.arange(count, device=tokens.device)
        kept = {layer: self._key_value(batch, layer) for layer in net.config.kv_layers}
        places = every
        hidden = net.fuse(batch.features(net.config.feature_layers).to(net.norm.weight.dtype))
        for step in range(num_steps):
            if step == 1 and starts is not None:
                places = starts.to(tokens.device)
                hidden = hidden[:, places]
            seen = every <= places[:, None]
            next_tokens = tokens[:, (places + 1 + step).clamp(max=count - 1)]
            embeds = F.embedding(next_tokens, self._model.embedding)

            def read(layer: int, query: torch.Tensor, seen: torch.Tensor = seen) -> torch.Tensor:
                key, value = (part.to(query.dtype) for part in kept[layer])
                return attend(query, key, value, seen)

            output, hidden = net(embeds, hidden, places, read)
            yield places, output

    def save(self, folder: Path) -> None:
        """One file with its config."""
        save_frozen_kv_mtp(self.net, folder / FILE_NAME)

    def load(self, folder: Path) -> None:
        """Those of the same sizes."""
        self.net.load_state_dict(load_frozen_kv_mtp(folder, self._model).state_dict())

    def _key_value(self, batch: TargetBatch, layer: int) -> KeyValue:
        """What the target keeps of the batch in a layer; both [b, t, kv_heads, head_dim]."""
        states = batch.features([layer])
        positions = torch.arange(states.shape[1], device=states.device).repeat(len(states))
        key, value = self._model.key_value(layer, states.flatten(0, 1), positions)
        return key.unflatten(0, states.shape[:2]), value.unflatten(0, states.shape[:2])
