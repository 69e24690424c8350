"""The target's view of many texts, kept on disk from the moment it is first needed.

Training reads every text several times, and so does every further drafter; a pass of the target
costs more than a step of training. Files are mapped, so the page cache decides what is in memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path

import torch
from tqdm import tqdm

from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.data import Sample
from lessons.lib.train.target_pass import TOP_K, TargetBatch, TargetRows, collate, run_target


class TargetCache:
    """Owns the files. Two processes may fill one cache: what both write is the same."""

    def __init__(
        self,
        model: LlamaModel,
        samples: Sequence[Sample],
        layers: Sequence[int],
        folder: Path,
        top_k: int = TOP_K,
    ) -> None:
        """folder: of all caches; this one's name there follows from all that decides its content,
        so that no other target's or text's states are ever read."""
        self.model, self.samples, self.layers = model, list(samples), tuple(layers)
        self._top_k = min(top_k, model.config.vocab_size)
        self._ends = list(accumulate(len(sample.token_ids) for sample in samples))
        self.folder = folder / f"target-{self._name()}"
        self.folder.mkdir(parents=True, exist_ok=True)
        count, hidden = self._ends[-1], model.config.hidden_size
        self._states = self._map("states", model.dtype, count, len(self.layers), hidden)
        self._top_ids = self._map("top_ids", torch.int32, count, self._top_k)
        self._top_probs = self._map("top_probs", torch.float16, count, self._top_k)
        self._is_done = self._map("is_done", torch.uint8, len(self.samples))

    @property
    def num_bytes(self) -> int:
        """On disk once it is full."""
        return sum(part.nbytes for part in (self._states, self._top_ids, self._top_probs))

    def batch(self, indices: Sequence[int]) -> TargetBatch:
        """The texts of these indices; those never asked for before are run through the target."""
        self._run([index for index in indices if not self._is_done[index]])
        samples = [self.samples[index] for index in indices]
        return collate(samples, [self._read(index) for index in indices], self.layers)

    def fill(self, batch_size: int = 8) -> None:
        """Run the target over all that is missing."""
        missing = [index for index in range(len(self.samples)) if not self._is_done[index]]
        groups = [missing[i : i + batch_size] for i in range(0, len(missing), batch_size)]
        for group in tqdm(groups, desc="target's states", unit="batch"):
            self._run([index for index in group if not self._is_done[index]])

    def _run(self, indices: Sequence[int]) -> None:
        if not indices:
            return
        samples = [self.samples[index] for index in indices]
        found = run_target(self.model, samples, self.layers, self._top_k)
        for index, rows in zip(indices, found, strict=True):
            place = self._place(index)
            self._states[place] = rows.states.cpu()
            self._top_ids[place] = rows.top_ids.to("cpu", torch.int32)
            self._top_probs[place] = rows.top_probs.to("cpu", torch.float16)
            self._is_done[index] = 1  # last, so that half a text is never read

    def _read(self, index: int) -> TargetRows:
        place, device = self._place(index), self.model.device
        return TargetRows(
            self._states[place].to(device),
            self._top_ids[place].to(device, torch.int64),
            self._top_probs[place].to(device, torch.float32),
        )

    def _place(self, index: int) -> slice:
        end = self._ends[index]
        return slice(end - len(self.samples[index].token_ids), end)

    def _map(self, name: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        """A tensor over a file of that name, made of zeros where there is none."""
        count = torch.Size(shape).numel()
        path = str(self.folder / f"{name}.bin")
        return torch.from_file(path, shared=True, size=count, dtype=dtype).view(shape)

    def _name(self) -> str:
        model = self.model
        facts = [asdict(model.config), str(model.dtype), self.layers, self._top_k]
        digest = hashlib.sha256(json.dumps(facts, default=str).encode())
        for weight in (model.embedding, model.layers[-1].down):
            digest.update(weight.to_dense().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        for sample in self.samples:
            digest.update(json.dumps([sample.prompt_len, sample.token_ids]).encode())
        return digest.hexdigest()[:16]
