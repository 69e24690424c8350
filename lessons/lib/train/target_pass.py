"""What the target thinks of given texts: the states a drafter reads and the laws it must meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from kernels.kv_pool import SequenceKV
from kernels.runtime import InputError
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.features import FeatureCapture
from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.data import Sample
from lessons.lib.tree import DraftTree

TOP_K = 16  # of a law are kept; the rest is some percent of the mass


@dataclass(frozen=True)
class TargetRows:
    """The target's view of one text of t tokens, in the target's dtype where not said.

    states [t, layers, hidden]: what enters the layers that were asked for, in their order.
    top_ids [t, k] int64, top_probs [t, k] float32: the likeliest tokens BEHIND each position at
    temperature 1, likeliest first; from prompt_len - 1 on, zeros before.
    """

    states: torch.Tensor
    top_ids: torch.Tensor
    top_probs: torch.Tensor


@dataclass(frozen=True)
class TargetBatch:
    """Texts side by side, zeros behind the end of each; all on the target's device.

    token_ids [b, t] int64; lengths, prompt_lens [b] int64; the rest as in TargetRows with a
    leading b, of the layers in `layers`.
    """

    token_ids: torch.Tensor
    lengths: torch.Tensor
    prompt_lens: torch.Tensor
    layers: tuple[int, ...]
    states: torch.Tensor
    top_ids: torch.Tensor
    top_probs: torch.Tensor

    def features(self, layers: Sequence[int]) -> torch.Tensor:
        """[b, t, len(layers) * hidden], in the order given. InputError for one that is not held."""
        if missing := [layer for layer in layers if layer not in self.layers]:
            kept = ", ".join(map(str, self.layers))
            raise InputError(
                f"no state of layer {missing[0]}: only those of {kept} are kept (`cached_layers`)"
            )
        return self.states[:, :, [self.layers.index(layer) for layer in layers]].flatten(2)


def run_target(
    model: LlamaModel, samples: Sequence[Sample], layers: Sequence[int], top_k: int = TOP_K
) -> list[TargetRows]:
    """One forward of the target over whole texts, by the path that the engine takes too."""
    lengths = [len(sample.token_ids) for sample in samples]
    pool = model.new_pool(16 * sum(-(-length // 16) for length in lengths))
    rows = [(SequenceKV(), DraftTree.chain(sample.token_ids)) for sample in samples]
    counts = [sample.num_response + 1 for sample in samples]
    capture = FeatureCapture(layers)
    logits = model.forward(prepare_batch(pool, rows, counts), pool, capture)
    with torch.no_grad():
        top = logits.clone().float().softmax(-1).topk(min(top_k, logits.shape[-1]))
        states = capture.rows(layers, range(sum(lengths))).clone().unflatten(1, (len(layers), -1))
        parts = zip(
            states.split(lengths),
            _behind_prompts(top.indices, samples, counts),
            _behind_prompts(top.values, samples, counts),
            strict=True,
        )
        return [TargetRows(*part) for part in parts]


def _behind_prompts(
    rows: torch.Tensor, samples: Sequence[Sample], counts: Sequence[int]
) -> list[torch.Tensor]:
    """rows [sum(counts), k] -> of each sample [its length, k]: zeros, then its rows."""
    zeros = [rows.new_zeros(sample.prompt_len - 1, rows.shape[1]) for sample in samples]
    return [torch.cat(pair) for pair in zip(zeros, rows.split(list(counts)), strict=True)]


def collate(
    samples: Sequence[Sample], rows: Sequence[TargetRows], layers: Sequence[int]
) -> TargetBatch:
    """Texts and the target's view of each, padded to the longest."""
    device = rows[0].states.device

    def pad(parts: Sequence[torch.Tensor]) -> torch.Tensor:
        return pad_sequence(list(parts), batch_first=True)

    return TargetBatch(
        pad([torch.tensor(sample.token_ids, device=device) for sample in samples]),
        torch.tensor([len(sample.token_ids) for sample in samples], device=device),
        torch.tensor([sample.prompt_len for sample in samples], device=device),
        tuple(layers),
        pad([part.states for part in rows]),
        pad([part.top_ids for part in rows]),
        pad([part.top_probs for part in rows]),
    )
