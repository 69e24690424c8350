"""Text to token ids and back, and the chat template; from a GGUF or a Hugging Face folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from kernels.runtime import InputError
from lessons.lib.model.gguf_file import GGUFFile
from lessons.lib.model.hf_folder import read_json

_NORMAL = 1  # GGUF token types; all others are control or user-defined and never split


class Tokenizer:
    """Encodes, decodes and applies the chat template. Stateless."""

    def __init__(
        self,
        backend: Backend,
        eos_token_ids: frozenset[int],
        chat_template: str | None,
        special_tokens: dict[str, str],
    ) -> None:
        """special_tokens: what the template may print, such as bos_token and eos_token."""
        self._backend = backend
        self.eos_token_ids = eos_token_ids
        self._chat_template = chat_template
        self._special_tokens = special_tokens

    def to_json(self) -> str:
        """Everything this tokenizer is, as text; `from_json` is the inverse."""
        return json.dumps(
            {
                "backend": self._backend.to_str(),
                "eos_token_ids": sorted(self.eos_token_ids),
                "chat_template": self._chat_template,
                "special_tokens": self._special_tokens,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        """Rebuild what `to_json` wrote."""
        parts = json.loads(text)
        return cls(
            Backend.from_str(parts["backend"]),
            frozenset(parts["eos_token_ids"]),
            parts["chat_template"],
            parts["special_tokens"],
        )

    @property
    def vocab_size(self) -> int:
        """Number of tokens, added ones included."""
        return self._backend.get_vocab_size()

    @property
    def vocabulary(self) -> dict[str, int]:
        """Id of every token, added ones included."""
        return self._backend.get_vocab()

    def encode(self, text: str) -> list[int]:
        """Ids of a plain text, with a beginning-of-text token where the model wants one."""
        return self._backend.encode(text).ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the ids; special tokens are left out."""
        return self._backend.decode(list(token_ids))

    def apply_chat_template(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Ids of a conversation, ending where the assistant's answer starts.

        messages: {"role": "system" | "user" | "assistant", "content": text}. Raises InputError
        when the model ships no template or the template refuses the messages.
        """
        if self._chat_template is None:
            raise InputError("this model has no chat template; pass plain text instead")
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _raise_template_error
        try:
            text = environment.from_string(self._chat_template).render(
                messages=list(messages), add_generation_prompt=True, **self._special_tokens
            )
        except TemplateError as error:
            raise InputError(f"chat template: {error}") from error
        return self._backend.encode(text, add_special_tokens=False).ids


def _raise_template_error(message: str) -> None:
    raise TemplateError(message)


def tokenizer_from_gguf(file: GGUFFile) -> Tokenizer:
    """Rebuild the byte-level BPE of SmolLM: every digit alone, then GPT-2's byte-level split."""
    kind = (file.metadata("tokenizer.ggml.model"), file.metadata("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise InputError(
            f"{file.path}: tokenizer {kind[0]}/{kind[1]} is not supported in GGUF form; "
            "give a Hugging Face folder with tokenizer.json"
        )
    tokens: list[str] = file.require("tokenizer.ggml.tokens")
    types: list[int] = file.require("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ", 1)) for merge in file.require("tokenizer.ggml.merges")]
    backend = Backend(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    backend.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, types, strict=True) if kind != _NORMAL]
    backend.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    eos = int(file.require("tokenizer.ggml.eos_token_id"))
    bos = file.metadata("tokenizer.ggml.bos_token_id")
    names = {"eos_token": tokens[eos]} | ({"bos_token": tokens[bos]} if bos is not None else {})
    return Tokenizer(backend, frozenset({eos}), file.metadata("tokenizer.chat_template"), names)


def tokenizer_from_folder(folder: Path) -> Tokenizer:
    """tokenizer.json as it is; template and end tokens from the files beside it."""
    path = folder / "tokenizer.json"
    if not path.exists():
        raise InputError(f"{path}: file not found; the folder needs its tokenizer")
    backend = Backend.from_file(str(path))
    settings = _optional_json(folder / "tokenizer_config.json")
    names = {
        name: value["content"] if isinstance(value, dict) else value
        for name in ("bos_token", "eos_token")
        if (value := settings.get(name))
    }
    return Tokenizer(
        backend, _eos_ids(folder, backend, names), _folder_template(folder, settings), names
    )


def _optional_json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def _folder_template(folder: Path, settings: dict[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.exists():
        return file.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):  # several named templates
        named = {entry["name"]: entry["template"] for entry in template}
        return named.get("default")
    return template


def _eos_ids(folder: Path, backend: Backend, names: dict[str, str]) -> frozenset[int]:
    """generation_config.json lists all ends; config.json and the tokenizer may know only one."""
    for file in ("generation_config.json", "config.json"):
        ids = _optional_json(folder / file).get("eos_token_id")
        if ids is not None:
            return frozenset(ids if isinstance(ids, list) else [ids])
    token_id = backend.token_to_id(names["eos_token"]) if "eos_token" in names else None
    return frozenset() if token_id is None else frozenset({token_id})
