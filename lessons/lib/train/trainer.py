"""Trains a drafter, whichever its recipe is: order of texts, rate, checkpoints, history."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from kernels.runtime import InputError
from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.data import batches
from lessons.lib.train.recipe import Recipe
from lessons.lib.train.target_cache import TargetCache

_BETAS, _CLIP = (0.9, 0.95), 0.5


@dataclass(frozen=True)
class TrainSettings:
    """What decides the result beside the data and the recipe. Counts are response tokens unless
    said."""

    num_tokens: int
    batch_size: int = 4  # texts; small, since tokens are scarcer than steps
    learning_rate: float = 6e-4
    num_warmup: int = 8_000
    decay_share: float = 0.4  # the last part, in which the rate falls to zero
    seed: int = 0

    def rate(self, seen: int) -> float:
        """Learning rate after `seen` tokens."""
        left = (self.num_tokens - seen) / (self.decay_share * self.num_tokens)
        return self.learning_rate * max(0.0, min(1.0, (seen + 1) / self.num_warmup, left))


class Trainer:
    """Owns optimiser and the place in the data; `save` and `resume` keep all of it."""

    def __init__(
        self, recipe: Recipe, texts: TargetCache, train: Sequence[int], settings: TrainSettings
    ) -> None:
        """train: indices of the texts to learn from. The target stays as it is."""
        if not train:
            raise InputError("no texts to train on")
        self.recipe, self.texts, self.train, self.settings = recipe, texts, list(train), settings
        self._optimizer = torch.optim.AdamW(
            recipe.net.parameters(), settings.learning_rate, _BETAS, weight_decay=0.0, fused=True
        )
        self.num_steps = self.num_seen = 0
        self.num_before = 0  # tokens that the weights had seen before this run
        self.seconds = 0.0
        self.history: list[dict[str, Any]] = []  # what was measured on the way
        self.notes: dict[str, Any] = {}  # for the card: data, command, device, control

    def run(self, until: int | None = None) -> Iterator[float]:
        """Train up to `until` tokens, all by default; yields the loss of every step."""
        until = self.settings.num_tokens if until is None else until
        samples = [self.texts.samples[index] for index in self.train]
        order = batches(samples, self.settings.batch_size, self.settings.seed)
        for group in islice(order, self.num_steps, None):
            if self.num_seen >= until:
                return
            started = time.perf_counter()
            loss = self._step([self.train[index] for index in group])
            self.num_steps += 1
            self.num_seen += sum(samples[index].num_response for index in group)
            self.seconds += time.perf_counter() - started
            yield loss

    def save(self, path: Path) -> None:
        """Write the checkpoint whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".part")
        state = {name: getattr(self, name) for name in _PLAIN_STATE}
        state |= {"settings": asdict(self.settings), "recipe": _describe(self.recipe)}
        state |= {"net": self.recipe.net.state_dict(), "optimizer": self._optimizer.state_dict()}
        torch.save(state, scratch)
        scratch.replace(path)

    def resume(self, path: Path) -> None:
        """Go on where `save` was called. Raises InputError when it was another run's."""
        state = read_checkpoint(path)
        for kind, mine in (
            ("recipe", _describe(self.recipe)),
            ("settings", asdict(self.settings)),
        ):
            for name, value in mine.items():
                found = state[kind].get(name)
                if found != value and name != "num_tokens":
                    raise InputError(f"{path}: was trained with {name} {found}, not {value}")
        self.recipe.net.load_state_dict(state["net"])
        self._optimizer.load_state_dict(state["optimizer"])
        for name in _PLAIN_STATE:
            setattr(self, name, state[name])

    def _step(self, indices: Sequence[int]) -> float:
        for group in self._optimizer.param_groups:
            group["lr"] = self.settings.rate(self.num_seen)
        generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + self.num_steps)
        with mixed_precision(self.texts.model):
            loss = self.recipe.loss(self.texts.batch(indices), generator)
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.recipe.net.parameters(), _CLIP)
        self._optimizer.step()
        return loss.item()


_PLAIN_STATE = ("num_steps", "num_seen", "num_before", "seconds", "history", "notes")


def _describe(recipe: Recipe) -> dict[str, Any]:
    return {"drafter": recipe.name} | asdict(recipe.settings)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What `Trainer.save` wrote. Raises InputError for anything else."""
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    except (OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise InputError(f"{path}: not a checkpoint of this trainer ({error})") from error
    return state


def mixed_precision(model: LlamaModel) -> torch.autocast:
    """Matrix products in bf16 where the target is in bf16; weights stay float32."""
    is_on = model.dtype == torch.bfloat16
    return torch.autocast(model.device.type, torch.bfloat16, enabled=is_on)
