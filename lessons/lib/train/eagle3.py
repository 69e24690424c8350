"""Trains EAGLE-3: training-time test, soft cross-entropy with the target's law, resumable.

Features are computed as they are needed: with less than one epoch no text is seen twice, and the
states of a million tokens would fill 5 GB.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from kernels.runtime import InputError
from lessons.lib.draft.eagle3_net import Eagle3Config, Eagle3Net
from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.data import Sample, batches, frequent_ids
from lessons.lib.train.target_pass import TargetBatch, run_target
from lessons.lib.train.unroll import learnt_rows, unroll

_STEP_WEIGHT = 0.8  # of step i to the power of i, as the authors
_BETAS, _CLIP = (0.9, 0.95), 0.5


@dataclass(frozen=True)
class TrainSettings:
    """What decides the result, beside the data. Counts are response tokens unless said."""

    num_tokens: int
    draft_vocab_size: int = 16_384
    batch_size: int = 4  # texts; small, since tokens are scarcer than steps
    learning_rate: float = 6e-4
    num_warmup: int = 8_000
    decay_share: float = 0.4  # the last part, in which the rate falls to zero
    num_unrolled: int = 4
    unrolled_share: float = 0.34  # of the positions, drawn anew each batch, that go beyond step 0
    seed: int = 0

    def rate(self, seen: int) -> float:
        """Learning rate after `seen` tokens."""
        left = (self.num_tokens - seen) / (self.decay_share * self.num_tokens)
        return self.learning_rate * max(0.0, min(1.0, (seen + 1) / self.num_warmup, left))


class Eagle3Trainer:
    """Owns network, optimiser and the place in the data; `save` and `resume` keep all of it."""

    def __init__(
        self, model: LlamaModel, samples: Sequence[Sample], settings: TrainSettings
    ) -> None:
        """The target stays as it is. samples: without held-out ones."""
        if not samples:
            raise InputError("no samples to train on")
        self.model, self.samples, self.settings = model, samples, settings
        torch.manual_seed(settings.seed)
        self.net = Eagle3Net(Eagle3Config.of(model.config, settings.draft_vocab_size))
        vocab = model.config.vocab_size
        self.net.set_vocabulary(frequent_ids(samples, settings.draft_vocab_size, vocab))
        self.net.start_from(model)
        self.net.to(model.device)
        self.optimizer = torch.optim.AdamW(
            self.net.parameters(), settings.learning_rate, _BETAS, weight_decay=0.0, fused=True
        )
        self.num_steps = self.num_seen = 0
        self.seconds = 0.0
        self.history: list[dict[str, Any]] = []  # what was measured on the way
        self.notes: dict[str, Any] = {}  # for the card: data, command, device, control

    def run(self, until: int | None = None) -> Iterator[float]:
        """Train up to `until` tokens, all by default; yields the loss of every step."""
        until = self.settings.num_tokens if until is None else until
        order = batches(self.samples, self.settings.batch_size, self.settings.seed)
        for group in islice(order, self.num_steps, None):
            if self.num_seen >= until:
                return
            started = time.perf_counter()
            loss = self._step(run_target(self.model, group, self.net.config.feature_layers))
            self.num_steps += 1
            self.num_seen += sum(sample.num_response for sample in group)
            self.seconds += time.perf_counter() - started
            yield loss

    def save(self, path: Path) -> None:
        """Write the checkpoint whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".part")
        state = {name: getattr(self, name) for name in _PLAIN_STATE}
        state |= {"settings": asdict(self.settings), "net": self.net.state_dict()}
        torch.save(state | {"optimizer": self.optimizer.state_dict()}, scratch)
        scratch.replace(path)

    def resume(self, path: Path) -> None:
        """Go on where `save` was called. Raises InputError when it was another run's."""
        state = _read(path)
        for name, value in asdict(self.settings).items():
            if state["settings"].get(name) != value and name != "num_tokens":
                raise InputError(
                    f"{path}: was trained with {name} {state['settings'].get(name)}, not {value}"
                )
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        for name in _PLAIN_STATE:
            setattr(self, name, state[name])

    def _step(self, batch: TargetBatch) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate(self.num_seen)
        generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + self.num_steps)
        loss = unrolled_loss(self.net, self.model, batch, self.settings, generator)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), _CLIP)
        self.optimizer.step()
        return loss.item()


_PLAIN_STATE = ("num_steps", "num_seen", "seconds", "history", "notes")


def load_trainer(path: Path, model: LlamaModel, samples: Sequence[Sample]) -> Eagle3Trainer:
    """The run of a checkpoint, with the settings it was made with."""
    trainer = Eagle3Trainer(model, samples, TrainSettings(**_read(path)["settings"]))
    trainer.resume(path)
    return trainer


def _read(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    except (OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise InputError(f"{path}: not a checkpoint of this trainer ({error})") from error
    return state


def mixed_precision(model: LlamaModel) -> torch.autocast:
    """Matrix products in bf16 where the target is in bf16; weights stay float32."""
    is_on = model.dtype == torch.bfloat16
    return torch.autocast(model.device.type, torch.bfloat16, enabled=is_on)


def unrolled_loss(
    net: Eagle3Net,
    model: LlamaModel,
    batch: TargetBatch,
    settings: TrainSettings,
    generator: torch.Generator,
) -> torch.Tensor:
    """Sum over the steps of 0.8^i times the mean soft cross-entropy of the rows.

    Matrix products in the target's dtype, weights and softmax in float32. Rows whose next token is
    outside the draft vocabulary have nothing to learn from, and are left out.
    """
    num_positions = batch.token_ids.shape[1]
    count = max(1, round(settings.unrolled_share * num_positions))
    starts = torch.randperm(num_positions, generator=generator)[:count].sort().values
    starts = starts.to(model.device)
    head = model.lm_head[net.target_ids]
    in_vocabulary = torch.zeros(model.config.vocab_size, dtype=torch.bool, device=model.device)
    in_vocabulary[net.target_ids] = True
    total = torch.zeros((), device=model.device)
    with mixed_precision(model):
        steps = unroll(net, model.embedding, batch, settings.num_unrolled, starts)
        for step, (rows, hidden) in enumerate(steps):
            behind = (rows + 2 + step).clamp(max=num_positions - 1)
            is_learnt = learnt_rows(batch, rows, step) & in_vocabulary[batch.token_ids[:, behind]]
            if not is_learnt.any():
                continue
            final = batch.final[:, (rows + 1 + step).clamp(max=num_positions - 1)][is_learnt]
            target_probs = F.linear(final, head).float().softmax(-1)
            logits = net.logits(hidden[is_learnt]).float()
            total = total + _STEP_WEIGHT**step * F.cross_entropy(logits, target_probs)
    return total
