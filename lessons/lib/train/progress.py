"""What is measured on held-out texts while training runs, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import torch

from lessons.lib.train.data import Sample
from lessons.lib.train.eagle3 import Eagle3Trainer, mixed_precision
from lessons.lib.train.held_out import HeldOut, measure_bigram, measure_net
from lessons.lib.train.target_pass import run_target

_NUM_POSITIONS = 4
_TEXTS_OF_A_KIND = 12


class Progress:
    """Owns the held-out texts with the target's view of them."""

    def __init__(self, trainer: Eagle3Trainer, held_out: Sequence[Sample]) -> None:
        """held_out: of each kind the first ones are used."""
        self._trainer = trainer
        kinds = sorted({sample.kind for sample in held_out})
        groups = {k: [s for s in held_out if s.kind == k][:_TEXTS_OF_A_KIND] for k in kinds}
        layers, size = trainer.net.config.feature_layers, trainer.settings.batch_size
        self._batches = {
            kind: [
                run_target(trainer.model, group[i : i + size], layers)
                for i in range(0, len(group), size)
            ]
            for kind, group in groups.items()
        }

    def control(self, table: torch.Tensor) -> dict[str, list[float]]:
        """Conditional acceptance of bigrams, by kind."""
        found = {k: measure_bigram(table, b, _NUM_POSITIONS) for k, b in self._batches.items()}
        return _tell("bigram control", found)

    def measure(self, losses: Sequence[float]) -> None:
        """Add an entry to the trainer's history; losses are those since the last one."""
        trainer = self._trainer
        with mixed_precision(trainer.model):
            found = {
                kind: measure_net(trainer.net, trainer.model.embedding, batches, _NUM_POSITIONS)
                for kind, batches in self._batches.items()
            }
        loss = fmean(losses) if losses else float("nan")
        label = f"{trainer.num_seen} tokens, {trainer.seconds:.0f} s, loss {loss:.3f}"
        trainer.history.append(
            {
                "tokens": trainer.num_seen,
                "steps": trainer.num_steps,
                "seconds": trainer.seconds,
                "loss": loss,
                "conditional": _tell(label, found),
            }
        )


def _tell(label: str, found: dict[str, HeldOut]) -> dict[str, list[float]]:
    """Print a line; conditional acceptance of all kinds together and of each."""
    rows = {"all": sum(found.values(), HeldOut.empty(_NUM_POSITIONS))} | found
    lengths = ", ".join(f"{kind} {row.tokens_per_round:.2f}" for kind, row in rows.items())
    values = " ".join(f"{value:.2f}" for value in rows["all"].conditional)
    print(f"{label}: conditional {values}; tokens a round {lengths}", flush=True)
    return {kind: row.conditional for kind, row in rows.items()}
