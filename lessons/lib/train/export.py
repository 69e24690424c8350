"""From a checkpoint to what is shipped: weights in bf16, what is known of the run, and a card."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernels.runtime import InputError
from lessons.lib.model.hf_folder import read_json
from lessons.lib.train.engine_card import drop_engine_figures
from lessons.lib.train.recipe import Recipe
from lessons.lib.train.trainer import Trainer

_RUN = "training.json"


def export(trainer: Trainer, folder: Path) -> None:
    """Write weights, config, checksum, training.json and card.md to `folder`. The run must have
    been measured."""
    if not trainer.history:
        raise InputError("this checkpoint was never measured; train on to the next measurement")
    trainer.recipe.save(folder)
    run = {
        "tokens": trainer.num_before + trainer.num_seen,
        "history": trainer.history,
        "notes": trainer.notes,
    }
    (folder / _RUN).write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    (folder / "card.md").write_text(_card(trainer), encoding="utf-8")
    drop_engine_figures(folder)


def start_from(trainer: Trainer, folder: Path) -> None:
    """Shipped weights, of this drafter or one that it extends, as the start of a new run: no
    optimiser state. The history of the same drafter goes on."""
    trainer.recipe.load(folder)
    run = read_json(folder / _RUN)
    trainer.notes["started from"] = f"{run['notes']['drafter']} after {run['tokens']:,} tokens"
    if run["notes"]["drafter"] == trainer.recipe.name:
        trainer.num_before, trainer.history = run["tokens"], run["history"]


def _card(trainer: Trainer) -> str:
    notes, recipe = trainer.notes, trainer.recipe
    last = trainer.history[-1]
    lines = [*_facts(trainer), "", _MEASURED, ""]
    lines += _rows({"bigram control": notes["bigram"], "this drafter": last["conditional"]})
    lines += ["", "Over the course of training, all kinds:", ""]
    lines += [*_curve(trainer.history), "", _go_on(recipe)]
    return "\n".join(lines) + "\n"


_MEASURED = """Held-out texts of the target, greedy drafts from places all over the responses:
acceptance of each position given those before it, and tokens a round with the bonus token. They
answer prompts of the same templates as those learnt from; on other prompts less is accepted, as
`python -m lessons.lib.train eval` shows in the engine with the prompts of `compare`."""


def _facts(trainer: Trainer) -> list[str]:
    settings, notes, recipe = trainer.settings, trainer.notes, trainer.recipe
    own = ", ".join(f"{name} {value:,}" for name, value in asdict(recipe.settings).items())
    count = sum(parameter.numel() for parameter in recipe.net.parameters())
    before = f"; started from {notes['started from']}" if "started from" in notes else ""
    return [
        f"# {recipe.title} drafter for SmolLM2-135M-Instruct",
        "",
        f"- {count / 1e6:.1f} M parameters, bf16",
        f"- data: {notes['data']}: {notes['texts']:,} texts with {notes['tokens']:,} response "
        "tokens to learn from; held out: one text in 24; no prompt of `compare` is in them",
        f"- trained on {trainer.num_seen:,} response tokens "
        f"({trainer.num_seen / notes['tokens']:.1f} passes over the texts) in "
        f"{trainer.num_steps:,} steps of {settings.batch_size} texts, {trainer.seconds:,.0f} s, "
        f"with the target's states ready on disk{before}",
        f"- device: {notes['device']}",
        f"- seed {settings.seed}, learning rate {settings.learning_rate}; {own}",
        f"- command: `{notes['command']}`",
        "- licence: Apache-2.0, as the target whose weights or words it started from",
    ]


def _go_on(recipe: Recipe) -> str:
    return (
        "To go on from these weights (without the optimiser's state, so the rate warms up again): "
        f"`python -m lessons.lib.train {recipe.name} --from-weights FOLDER --tokens N`, "
        f"then `python -m lessons.lib.train export {recipe.name}`."
    )


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
