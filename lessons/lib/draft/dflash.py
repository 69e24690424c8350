"""DFlash: one pass of a small network drafts a whole block (arXiv 2602.06036)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.checkpoints import is_published, load_as
from lessons.lib.draft.dflash_net import DFlashConfig, DFlashNet
from lessons.lib.draft.draft_kv import DraftKV
from lessons.lib.draft.lockstep import Drafting, SharedProposer, Steps, by_row
from lessons.lib.draft.net_file import load_weights, read_config, save_net
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.model.llama import LlamaModel
from lessons.lib.sampling import SeededRandom, logits_to_probs, most_likely


class DFlashProposer(SharedProposer):
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
        self._weight_bytes = sum(p.nbytes for p in net.parameters())  # asked for every round
        self._context: list[DraftKV] = []
        self.num_passes = 0  # of the network, since the request began
        self.forget()

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Hidden states of the target it reads."""
        return self._net.config.feature_layers

    @property
    def memory_bytes(self) -> int:
        """Weights of the network, the context's keys and values, and features that wait."""
        waiting = sum(features.nbytes for features, _ in self._waiting)
        return self._weight_bytes + waiting + sum(kv.num_bytes for kv in self._context)

    @property
    def num_cached(self) -> int:
        """Committed positions that the next block can look at: all but the anchor's."""
        return self._context[0].length + sum(len(features) for features, _ in self._waiting)

    def observe_features(
        self, start: int, features: torch.Tensor, next_token_ids: Sequence[int]
    ) -> None:
        """Keep them for the next block; what was known of the positions from `start` on is void."""
        if start > self.num_cached:
            raise InputError(f"features of position {start} came before {self.num_cached}")
        if start < self.num_cached:
            self._keep(start)
        positions = torch.arange(start, start + len(features), device=features.device)
        self._waiting.append((features, positions))

    def drafting(self, context_ids: Sequence[int], num_draft_tokens: int) -> Drafting:
        """Fill a whole block in one pass and propose the first of it."""
        hidden = yield from self._draft_rows(context_ids, num_draft_tokens)
        logits = yield by_row(self._net.base_logits, hidden, settings=(self._target,))
        logits = self._net.to_target_vocabulary(logits)
        if self._sampling.is_greedy:
            return DraftProposal(most_likely(logits).tolist())
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
        sizes = body.num_kv_heads, body.head_dim
        self._context = [DraftKV(*sizes, like) for _ in range(body.num_layers)]
        self._waiting: list[tuple[torch.Tensor, torch.Tensor]] = []  # features, their positions

    def _keep(self, count: int) -> None:
        """Know the first `count` positions and no more."""
        held = [part for part in self._waiting if int(part[1][0]) < count]
        self._waiting = [
            (features[: count - int(positions[0])], positions[: count - int(positions[0])])
            for features, positions in held
        ]
        for kv in self._context:
            kv.truncate(min(count, kv.length))

    def _learn(self) -> Steps[None]:
        """Make keys and values of the features that wait."""
        if self._waiting:
            features, positions = (torch.cat(parts) for parts in zip(*self._waiting, strict=True))
            made = yield by_row(self._net.context, features, positions)
            for kv, key_value in zip(self._context, made, strict=True):
                kv.append(*key_value)
            self._waiting = []

    def _draft_rows(self, context_ids: Sequence[int], count: int) -> Steps[torch.Tensor]:
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
        yield from self._learn()
        rows = yield from self._net.block_steps(embeds, positions, self._context)
        return rows[first : first + count]


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
