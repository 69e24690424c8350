"""The bundled prompts of five kinds: a main set to try things on, and two held-out ones.

"heldout" is written by hand, "sweep" is drawn from templates and large enough for serving runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from kernels.runtime import InputError
from lessons.lib.bench.templates import draw_prompts
from lessons.lib.model.tokenizer import Tokenizer

KINDS = ("maths", "json", "code", "copy", "chat")
HELD_OUT = ("heldout", "sweep")
SPLITS = ("main", *HELD_OUT)
NUM_DRAWN = 60  # prompts of each kind in "sweep"


@dataclass(frozen=True)
class Prompt:
    """One user message; `kind` is one of KINDS."""

    kind: str
    name: str
    text: str

    def token_ids(self, tokenizer: Tokenizer) -> list[int]:
        """The message in the model's chat format."""
        return tokenizer.apply_chat_template([{"role": "user", "content": self.text}])


def load_prompts(split: str = "main", kinds: Sequence[str] = KINDS) -> list[Prompt]:
    """Prompts of a split in the order of `kinds`. InputError for an unknown split or kind."""
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"unknown category {kind!r}; choose from {', '.join(KINDS)}, or all")
    if split == "sweep":
        drawn = ((kind, *row) for kind in kinds for row in draw_prompts(kind, NUM_DRAWN))
        return [Prompt(*row) for row in drawn]
    text = resources.files("lessons.lib.bench").joinpath("prompts.json").read_text("utf-8")
    entries = [entry for entry in json.loads(text)["prompts"] if entry["split"] == split]
    return [
        Prompt(entry["kind"], entry["name"], entry["text"])
        for kind in kinds
        for entry in entries
        if entry["kind"] == kind
    ]
