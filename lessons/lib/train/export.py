"""From a checkpoint to what is shipped: weights in bf16 and a card that says what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernels.runtime import InputError
from lessons.lib.draft.eagle3_file import save_eagle3
from lessons.lib.train.eagle3 import Eagle3Trainer


def export_eagle3(trainer: Eagle3Trainer, folder: Path) -> None:
    """Write weights, config, checksum and card.md to `folder`. The run must have been measured."""
    if not trainer.history:
        raise InputError("this checkpoint was never measured; train on to the next measurement")
    save_eagle3(trainer.net, folder)
    (folder / "card.md").write_text(_card(trainer), encoding="utf-8")


def _card(trainer: Eagle3Trainer) -> str:
    settings, notes = trainer.settings, trainer.notes
    last = trainer.history[-1]
    head = f"""# EAGLE-3 drafter

- data: {notes["data"]} (response tokens are learnt from; held out: one text in 24)
- trained on {trainer.num_seen:,} response tokens in {trainer.num_steps:,} steps of
  {settings.batch_size} texts, {trainer.seconds:,.0f} s
- device: {notes["device"]}
- seed {settings.seed}, learning rate {settings.learning_rate}, draft vocabulary
  {settings.draft_vocab_size:,}, {settings.num_unrolled} unrolled steps
- command: `{notes["command"]}`
- licence: Apache-2.0, as the target whose weights it started from

Whether acceptance had stopped rising can be read from the curve at the end.

Held-out texts of the target, greedy drafts from every position: acceptance of each position given
those before it, and tokens a round with the bonus token.
"""
    found = {"bigram control": notes["bigram"], "this drafter": last["conditional"]}
    lines = [head, *_rows(found), "", "Over the course of training, all kinds:", ""]
    return "\n".join([*lines, *_curve(trainer.history), ""])


def _rows(found: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    lines = ["| | kind | conditional by position | tokens a round |", "|-|-|-|-|"]
    for name, kinds in found.items():
        for kind, values in kinds.items():
            lines.append(f"| {name} | {kind} | {_numbers(values)} | {per_round(values):.2f} |")
    return lines


def _curve(history: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| response tokens | loss | conditional | tokens a round |", "|-|-|-|-|"]
    for entry in history:
        values = entry["conditional"]["all"]
        lines.append(
            f"| {entry['tokens']:,} | {entry['loss']:.3f} | {_numbers(values)} | "
            f"{per_round(values):.2f} |"
        )
    return lines


def per_round(conditional: Sequence[float]) -> float:
    """Tokens a round: the bonus token and what survives at each position."""
    total, survival = 1.0, 1.0
    for value in conditional:
        survival *= value
        total += survival
    return total


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.2f}" for value in values)
