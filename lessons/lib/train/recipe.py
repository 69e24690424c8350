"""What is different from drafter to drafter in training: one Recipe each, in a file of its own.

A new drafter adds its file and a line in `recipes.py`; data, steps, checkpoints, measurements,
export, card and eval are the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.data import Sample
from lessons.lib.train.held_out import HeldOut
from lessons.lib.train.target_pass import TargetBatch


class Recipe(Protocol):
    """Owns the network that is trained.

    name: as in `lessons.lib.draft.registry`. title: for the card. settings: a frozen dataclass of
    numbers, which a checkpoint must share. layers: ids of target states that a batch must hold.
    """

    name: str
    title: str
    Settings: Any  # the dataclass of `settings`, with a default for every field
    settings: Any
    layers: tuple[int, ...]

    def __init__(self, model: LlamaModel, settings: Any, samples: Sequence[Sample]) -> None:
        """samples: the texts to train on, for what is counted before the first step."""

    @property
    def net(self) -> nn.Module:
        """What is trained."""

    def loss(self, batch: TargetBatch, generator: torch.Generator) -> torch.Tensor:
        """What a step makes smaller. generator: the step's own, on the CPU; its only chance."""

    def measure(self, batch: TargetBatch, num_positions: int) -> HeldOut:
        """Greedy drafts of up to num_positions behind places in the responses, against the text."""

    def finish(self, batches: Sequence[TargetBatch]) -> None:
        """Once before export: what is fitted and not trained, on texts that nothing else uses."""

    def save(self, folder: Path) -> None:
        """Write the weights as they are shipped."""

    def load(self, folder: Path) -> None:
        """Start from shipped weights. Raises InputError for those of another drafter or size."""
