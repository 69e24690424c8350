"""A folder that somebody published: its config, its tensors, and the checks all layouts share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernels.runtime import InputError
from lessons.lib.model.hf_folder import open_safetensors, read_json, weight_files
from lessons.lib.model.llama import LlamaModel

Tensors = dict[str, torch.Tensor]
EMBEDDING, LM_HEAD = "embed_tokens.weight", "lm_head.weight"
# Written by some trainers and of no use in drafting: the verifier's own weights.
_TRAINING_ONLY = ("verifier_lm_head.weight", "verifier_norm.weight")


@dataclass(frozen=True)
class Checkpoint:
    """config: config.json as it is."""

    folder: Path
    config: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        """Raises InputError when there is no readable config."""
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; give one with config.json and weights")
        return cls(folder, read_json(folder / "config.json"))

    @property
    def source(self) -> str:
        """What errors about the config begin with."""
        return str(self.folder / "config.json")

    def fail(self, problem: str) -> InputError:
        """The error of a config that cannot be honoured."""
        return InputError(f"{self.source}: {problem}")

    def tensors(self, wanted: Callable[[str], bool] = lambda name: True) -> Tensors:
        """On the CPU, those whose name is `wanted`: of safetensors files or of pytorch_model.bin,
        which is read as plain data and may run no code."""
        pickled = self.folder / "pytorch_model.bin"
        is_pickle_only = pickled.exists() and not list(self.folder.glob("*.safetensors"))
        names = self._pickled(pickled) if is_pickle_only else self._safetensors(wanted)
        return {k: t for k, t in names.items() if wanted(k) and k not in _TRAINING_ONLY}

    def names(self) -> set[str]:
        """Of all tensors in safetensors files; nothing of them is read."""
        found: set[str] = set()
        for path in weight_files(self.folder):
            with open_safetensors(path) as file:
                found |= set(file.keys())
        return found

    def _safetensors(self, wanted: Callable[[str], bool]) -> Tensors:
        found: Tensors = {}
        for path in weight_files(self.folder):
            with open_safetensors(path) as file:
                found |= {name: file.get_tensor(name) for name in file.keys() if wanted(name)}  # noqa: SIM118
        return found

    def _pickled(self, path: Path) -> Tensors:
        try:
            found = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged pickle fails in many ways
            raise InputError(f"{path}: not a readable file of weights ({error})") from error
        if not isinstance(found, dict):
            raise InputError(f"{path}: expected tensors by name, found {type(found).__name__}")
        return found

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Put the config's path before an error that does not know where its values came from."""
        try:
            yield
        except InputError as error:
            raise self.fail(str(error)) from error


def drop_copies(
    tensors: Tensors, model: LlamaModel, embedding: str = EMBEDDING, head: str | None = LM_HEAD
) -> None:
    """Forget the tensors of these names where they repeat the target's embedding and head bit for
    bit: trainers that freeze them save them all the same, and at 8B they are a gigabyte each."""
    for name, own in ((embedding, model.embedding), (head, model.lm_head)):
        tensor = tensors.get(name or "")
        if tensor is None or tensor.shape != own.shape:
            continue
        if torch.equal(tensor.to(model.dtype), own.cpu()):
            del tensors[name or ""]


def settle_vocabulary(tensors: Tensors, vocab: int, draft_vocab: int, source: str) -> None:
    """Leave d2t, an offset for each draft id, where the vocabulary is reduced, and no t2d.

    t2d, the mask of the target ids that can be drafted, says the same again. Where both are there
    they are compared: a d2t of absolute ids would fit every shape and spoil every guess.
    """
    mask, d2t = tensors.pop("t2d", None), tensors.get("d2t")
    if draft_vocab == vocab:
        d2t = tensors.pop("d2t", None)
        if d2t is not None and d2t.any():
            raise InputError(f"{source}: tensor d2t reorders a vocabulary that is not reduced")
    elif mask is not None and d2t is not None and len(d2t) == draft_vocab and len(mask) == vocab:
        ids = d2t + torch.arange(draft_vocab)
        expected = torch.zeros(vocab, dtype=torch.bool)
        expected[ids[(ids >= 0) & (ids < vocab)]] = True
        if not torch.equal(mask.bool(), expected):
            raise InputError(
                f"{source}: tensors d2t and t2d contradict each other; d2t must hold the offset "
                "from each draft id to its target id, not the id"
            )
