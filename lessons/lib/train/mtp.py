"""MTP: cross-entropy of the token after next (DeepSeek-V3, arXiv 2412.19437 section 2.2).

With one unrolled step and soft_share 0 that is DeepSeek's loss for its one module; here the target
is frozen. More steps train the module on its own output, which it gets when it drafts deeper than
one token: Qwen3-Next's authors call theirs multi-step training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lessons.lib.draft.mtp import load_mtp, save_mtp
from lessons.lib.draft.mtp_net import MtpConfig, MtpNet
from lessons.lib.draft.net_file import FILE_NAME
from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.data import Sample
from lessons.lib.train.target_pass import TargetBatch
from lessons.lib.train.unroll import unroll
from lessons.lib.train.unrolled import Steps, UnrolledRecipe


@dataclass(frozen=True)
class MtpSettings:
    """Steps, and the share of positions, drawn anew each batch, that go beyond the first; the share
    of the loss that compares with the target's law instead of its token; head rows drawn beside the
    candidates."""

    num_unrolled: int = 3
    unrolled_share: float = 0.34
    soft_share: float = 0.5
    num_drawn: int = 1024


class MtpRecipe(UnrolledRecipe):
    """See `Recipe`."""

    name, title = "mtp", "MTP"
    Settings: Any = MtpSettings

    def __init__(self, model: LlamaModel, settings: Any, samples: Sequence[Sample]) -> None:
        self.settings, self._model = settings, model
        self.net = MtpNet(MtpConfig.of(model.config), model)
        self.net.start_from(model)
        self.net.to(model.device)
        self.layers = self.net.feature_layers

    def unroll(
        self, batch: TargetBatch, num_steps: int, starts: torch.Tensor | None = None
    ) -> Steps:
        """As EAGLE-3's, with the module's own KV."""
        features = batch.features(self.layers)
        return unroll(self.net, self._model.embedding, batch, features, num_steps, starts)

    def save(self, folder: Path) -> None:
        """One file with its config."""
        save_mtp(self.net, folder / FILE_NAME)

    def load(self, folder: Path) -> None:
        """Those of the same sizes."""
        self.net.load_state_dict(load_mtp(folder, self._model).state_dict())
