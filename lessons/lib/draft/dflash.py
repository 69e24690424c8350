"""DFlash: one pass of a small network drafts a whole block (arXiv 2602.06036)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.checkpoints import is_published, load_as
from lessons.lib.draft.decoder import KeyValue
from lessons.lib.draft.dflash_net import DFlashConfig, DFlashNet
from lessons.lib.draft.net_file import load_weights, read_config, save_net
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.model.llama import LlamaModel
from lessons.lib.sampling import SeededRandom, logits_to_probs


class DFlashProposer:
    """Owns the context keys and values of one request; the network is shared.

    The cache holds keys and values of target features of committed positions and nothing else.
    Those of the block are thrown away with the pass, so there is nothing to roll back.
    """

    def __init__(
        self, net: DFlashNet, target: LlamaModel, sampling: SamplingParams | None = None
    ) -> None:
        """sampling: the request's; greedy picks drafts, anything else draws them from their laws.

        net and target must share dtype and device.
        """
        net.config.check_target(target.config)
        self._net = net
        self._target = target
        self._sampling = sampling or SamplingParams()
        self._random = SeededRandom(self._sampling.seed, is_draft=True)
        self._context: list[KeyValue] = []
        self.num_passes = 0  # of the network, since the request began
        self.forget()

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Hidden states of the target it reads."""
        return self._net.config.feature_layers

    @property
    def memory_bytes(self) -> int:
        """Weights of the network and the context's keys and values."""
        held = [*self._net.parameters(), *(part for pair in self._context for part in pair)]
        return sum(tensor.nbytes for tensor in held)

    @property
    def num_cached(self) -> int:
        """Committed positions whose keys and values are cached: all but the anchor's."""
        return self._context[0][0].shape[0]

    @torch.inference_mode()
    def observe_features(
        self, start: int, features: torch.Tensor, next_token_ids: Sequence[int]
    ) -> None:
        """Add keys and values of the positions from `start` on; what was known there is void."""
        if start > self.num_cached:
            raise InputError(f"features of position {start} came before {self.num_cached}")
        positions = torch.arange(start, start + len(features), device=features.device)
        new = self._net.context(features, positions)
        self._context = [
            (torch.cat((key[:start], new_key)), torch.cat((value[:start], new_value)))
            for (key, value), (new_key, new_value) in zip(self._context, new, strict=True)
        ]

    @torch.inference_mode()
    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """Fill a whole block in one pass and propose the first of it."""
        hidden = self._draft_rows(context_ids, num_draft_tokens)
        logits = self._net.to_target_vocabulary(self._net.base_logits(hidden, self._target))
        if self._sampling.is_greedy:
            return DraftProposal(logits.argmax(-1).tolist())
        probs = logits_to_probs(logits, self._sampling)
        drawn = [
            self._random.draw(law, position)
            for position, law in enumerate(probs, start=len(context_ids))
        ]
        return DraftProposal(drawn, probs)

    def observe(self, token_ids: Sequence[int]) -> None:
        """Nothing to do: the features of what was committed come by `observe_features`."""

    def forget(self) -> None:
        """Drop the cache."""
        body, like = self._net.config.body, self._net.norm.weight  # no matrix: those may be packed
        empty = like.new_empty(0, body.num_kv_heads, body.head_dim)
        self._context = [(empty, empty)] * body.num_layers

    def _draft_rows(self, context_ids: Sequence[int], count: int) -> torch.Tensor:
        """The pass: the anchor and masks at their places in the text -> the rows that predict the
        first `count` drafts [<= count, hidden]. Often the anchor only looks: then its own row
        predicts nothing."""
        config, anchor = self._net.config, len(context_ids) - 1
        num_rows, first = config.block_size, int(not config.anchor_predicts)
        if self.num_cached != anchor:
            raise InputError(
                f"the drafter knows {self.num_cached} positions of the {anchor} before the last "
                "token; it must be given the target's features of each"
            )
        masks = [config.mask_token_id] * (num_rows - 1)
        token_ids = torch.tensor([context_ids[-1], *masks], device=self._target.device)
        embeds = self._net.embed(token_ids, self._target)
        positions = torch.arange(anchor, anchor + num_rows, device=self._target.device)
        self.num_passes += 1
        return self._net(embeds, positions, self._context)[first : first + count]


def save_dflash(net: DFlashNet, path: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Weights and config in one safetensors file."""
    save_net(net, net.config, path, dtype)


def load_dflash(path: Path, target: LlamaModel) -> DFlashNet:
    """A network for this target, in its dtype and on its device: of a file that `save_dflash` made,
    or of a folder that others published. Raises InputError for anything that does not fit, naming
    the tensor or the size."""
    if is_published(path):
        return load_as(DFlashNet, path, target)
    config = DFlashConfig(**read_config(path))
    config.check_target(target.config)
    net = DFlashNet(config)
    load_weights(net, path)
    return net.to(target.device, target.dtype)
