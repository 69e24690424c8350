"""What the target thinks of given texts: the features a drafter reads and the laws it must meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from kernels.kv_pool import SequenceKV
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.features import FeatureCapture
from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.data import Sample
from lessons.lib.tree import DraftTree


@dataclass(frozen=True)
class TargetBatch:
    """Texts side by side, padded at the end to the longest; all on the target's device.

    token_ids [b, t] int64; lengths, prompt_lens [b] int64; features [b, t, layers * hidden];
    final [b, t, hidden] after the final norm: `final @ lm_head.T` are the logits behind each token.
    """

    token_ids: torch.Tensor
    lengths: torch.Tensor
    prompt_lens: torch.Tensor
    features: torch.Tensor
    final: torch.Tensor


def run_target(
    model: LlamaModel, samples: Sequence[Sample], feature_layers: Sequence[int]
) -> TargetBatch:
    """One forward of the target over whole texts, by the path that the engine takes too."""
    lengths = [len(sample.token_ids) for sample in samples]
    pages = sum(-(-length // 16) for length in lengths)
    pool = model.new_pool(16 * pages)
    rows = [(SequenceKV(), DraftTree.chain(sample.token_ids)) for sample in samples]
    last = model.config.num_layers
    capture = FeatureCapture([*feature_layers, last])
    model.forward(prepare_batch(pool, rows, [0] * len(rows)), pool, capture)
    every_row = range(sum(lengths))
    with torch.no_grad():
        final = capture.rows([last], every_row)
        final = F.rms_norm(
            final, model.final_norm.shape, model.final_norm, model.config.rms_norm_eps
        )
        tokens = [token for sample in samples for token in sample.token_ids]
        return TargetBatch(
            _pad(torch.tensor(tokens, device=model.device), lengths),
            torch.tensor(lengths, device=model.device),
            torch.tensor([sample.prompt_len for sample in samples], device=model.device),
            _pad(capture.rows(feature_layers, every_row), lengths),
            _pad(final, lengths),
        )


def _pad(rows: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
    """[sum(lengths), ...] -> [len(lengths), max(lengths), ...], zeros behind; a fresh tensor that
    autograd may use, which one made in inference mode is not."""
    return torch.nn.utils.rnn.pad_sequence(list(rows.clone().split(list(lengths))), True)
