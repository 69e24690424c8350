"""FROZEN_KV_MTP: a drafter without KV of its own, on the target's (Gemma 4 assistants, SGLang).

There is no prompt to read and nothing to rebuild or roll back: a round starts from the target's
last state and the last token. Its price is that no draft can look at the drafts before it; all it
knows of them is in the state that is passed on. Every query stands at the position of the last
committed token, however deep the draft: SGLang's `set_frozen_kv_positions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from kernels.linear import linear
from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.chain import draft_chain
from lessons.lib.draft.frozen_kv_net import FrozenKvConfig, FrozenKvNet
from lessons.lib.draft.lockstep import Ask, Drafting, SharedProposer, Steps
from lessons.lib.draft.net_file import load_weights, read_config, save_net
from lessons.lib.draft.target_kv import TargetKV, reader
from lessons.lib.model.llama import LlamaModel
from lessons.lib.sampling import SeededRandom


@dataclass(frozen=True)
class FrozenPass:
    """One pass over a row of each request that drafts."""

    net: FrozenKvNet

    def __call__(
        self, items: Sequence[tuple[TargetKV, torch.Tensor, torch.Tensor]]
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The KV to look at, the token's embedding and the state [1, hidden] of each request ->
        logits [vocab] and the next state [1, hidden] of each."""
        kvs, embeds, hidden = zip(*items, strict=True)
        attend = reader(kvs, self.net.config.body.group_size)
        last = [kv.length - 1 for kv in kvs]
        positions = torch.tensor(last, device=hidden[0].device)
        output, states = self.net(torch.cat(embeds), torch.cat(hidden), positions, attend)
        return list(zip(linear(output, self.net.head), states.split(1), strict=True))


class FrozenKvMtpProposer(SharedProposer):
    """Owns the last state of one request; reads its KV, which stays the engine's."""

    def __init__(
        self, net: FrozenKvNet, target: LlamaModel, sampling: SamplingParams | None = None
    ) -> None:
        """sampling: the request's; greedy picks drafts, anything else draws them by their laws."""
        self.feature_layers = net.config.feature_layers
        self.num_passes = 0  # of the network, since the request began
        self._net, self._embedding = net, target.embedding
        self._sampling = sampling or SamplingParams()
        self._random = SeededRandom(self._sampling.seed, is_draft=True)
        self._weight_bytes = sum(p.numel() * p.element_size() for p in net.parameters())
        self._target_kv: TargetKV | None = None
        self._hidden: torch.Tensor | None = None
        self.forget()

    @property
    def memory_bytes(self) -> int:
        """The network and one state."""
        state = 0 if self._hidden is None else self._hidden.nbytes
        return self._weight_bytes + state

    def read_target_kv(self, target_kv: TargetKV) -> None:
        """From now on the context's keys and values are there."""
        self._target_kv = target_kv

    def observe_features(
        self, start: int, features: torch.Tensor, next_token_ids: Sequence[int]
    ) -> None:
        """Keep the last one; the others are in the target's KV."""
        self._hidden = features[-1:].clone()
        self._num_known = start + len(features)

    def observe(self, token_ids: Sequence[int]) -> None:
        """Nothing to do: the state of the committed positions says more."""

    def forget(self) -> None:
        """The request is over: its KV is no longer to be read."""
        self._target_kv = self._hidden = None
        self._num_known = 0

    def drafting(self, context_ids: Sequence[int], num_draft_tokens: int) -> Drafting:
        """A chain, one pass a draft, behind a context all of which but its last token the target
        has computed."""
        known = len(context_ids) - 1
        if self._target_kv is None:
            raise InputError("this drafter reads the target's KV: only an engine can lend it")
        lengths = self._num_known, self._target_kv.length
        assert lengths == (known, known), f"{lengths} of {known} states and KV"
        assert self._hidden is not None
        target_kv, hidden = self._target_kv, self._net.fuse(self._hidden)

        def following(token_id: int) -> Steps[torch.Tensor]:
            nonlocal hidden
            self.num_passes += 1
            token = torch.tensor([token_id], device=hidden.device)
            embeds = F.embedding(token, self._embedding)
            logits, hidden = yield Ask(FrozenPass(self._net), (target_kv, embeds, hidden))
            return logits

        first = yield from following(context_ids[-1])
        settings = num_draft_tokens, self._sampling, self._random, len(context_ids)
        return (yield from draft_chain(first, following, *settings))


def save_frozen_kv_mtp(net: FrozenKvNet, path: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Weights and config in one safetensors file."""
    save_net(net, net.config, path, dtype)


def load_frozen_kv_mtp(path: Path, target: LlamaModel) -> FrozenKvNet:
    """A network for this target, in its dtype and on its device. Raises InputError for anything
    that does not fit, naming the tensor or the size."""
    net = FrozenKvNet(FrozenKvConfig(**read_config(path)), target)
    load_weights(net, path)
    return net.to(target.device, target.dtype).requires_grad_(False)
