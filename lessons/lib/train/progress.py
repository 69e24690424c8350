"""What is measured on held-out texts while training runs, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from statistics import fmean

import torch

from lessons.lib.train.held_out import HeldOut, measure_bigram
from lessons.lib.train.target_cache import TargetCache
from lessons.lib.train.trainer import Trainer, mixed_precision

NUM_POSITIONS = 4
_TEXTS_OF_A_KIND = 12
_BATCH = 4


def measured_and_spare(texts: TargetCache, held_out: Sequence[int]) -> tuple[list[int], list[int]]:
    """Held-out texts: of each kind the first are measured, the others are spare, for what a recipe
    fits at the end."""
    count: dict[str, int] = {}
    parts: tuple[list[int], list[int]] = ([], [])
    for index in held_out:
        kind = texts.samples[index].kind
        count[kind] = count.get(kind, 0) + 1
        parts[count[kind] > _TEXTS_OF_A_KIND].append(index)
    return parts


class Progress:
    """Measures a trainer on the texts of these indices."""

    def __init__(self, trainer: Trainer, measured: Sequence[int]) -> None:
        self._trainer = trainer
        samples = trainer.texts.samples
        self._groups: dict[str, list[list[int]]] = {}
        for kind in sorted({samples[index].kind for index in measured}):
            group = [index for index in measured if samples[index].kind == kind]
            self._groups[kind] = [group[i : i + _BATCH] for i in range(0, len(group), _BATCH)]

    def control(self, table: torch.Tensor) -> dict[str, list[float]]:
        """Conditional acceptance of bigrams, by kind."""
        texts = self._trainer.texts
        found = {
            kind: measure_bigram(table, map(texts.batch, groups), NUM_POSITIONS)
            for kind, groups in self._groups.items()
        }
        return _tell("bigram control", found)

    def measure(self, losses: Sequence[float]) -> None:
        """Add an entry to the trainer's history; losses are those since the last one."""
        trainer = self._trainer
        loss = fmean(losses) if losses else float("nan")
        label = f"{trainer.num_seen} tokens, {trainer.seconds:.0f} s, loss {loss:.3f}"
        trainer.history.append(
            {
                "tokens": trainer.num_before + trainer.num_seen,
                "seconds": trainer.seconds,
                "loss": loss,
                "conditional": _tell(label, self._measure()),
            }
        )

    def _measure(self) -> dict[str, HeldOut]:
        recipe, texts = self._trainer.recipe, self._trainer.texts
        with mixed_precision(texts.model):
            return {
                kind: reduce(
                    add, (recipe.measure(texts.batch(group), NUM_POSITIONS) for group in groups)
                )
                for kind, groups in self._groups.items()
            }


def _tell(label: str, found: dict[str, HeldOut]) -> dict[str, list[float]]:
    """Print a line; conditional acceptance of all kinds together and of each."""
    rows = {"all": reduce(add, found.values())} | found
    lengths = ", ".join(f"{kind} {row.tokens_per_round:.2f}" for kind, row in rows.items())
    values = " ".join(f"{value:.2f}" for value in rows["all"].conditional)
    print(f"{label}: conditional {values}; tokens a round {lengths}", flush=True)
    return {kind: row.conditional for kind, row in rows.items()}
