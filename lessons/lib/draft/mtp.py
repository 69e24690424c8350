"""MTP: a module of the target's own making drafts the token after next (DeepSeek-V3, 2412.19437).

It is trained for one token. For a deeper chain the same module runs again on its own output, as
SGLang and vLLM run one-module checkpoints, and guesses worse with every step. SGLang drives it
with EAGLE's worker, and so does this course: the first pass of a round rebuilds the module's KV of
what was committed from the target's states and gives the first guess, every further guess costs one
more pass, and KV that rests on guesses is dropped.
"""

from __future__ import annotations

from pathlib import Path

import torch

from lessons.lib.config import SamplingParams
from lessons.lib.draft.checkpoints import is_published, load_module
from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.draft.mtp_net import MtpConfig, MtpNet
from lessons.lib.draft.net_file import load_weights, read_config, save_net
from lessons.lib.model.llama import LlamaModel


class MtpProposer(Eagle3Proposer):
    """Chains only; gamma passes for gamma drafts."""

    def __init__(
        self, net: MtpNet, target: LlamaModel, sampling: SamplingParams | None = None
    ) -> None:
        """The network may be shared by all requests of `target`."""
        super().__init__(net, target.embedding, sampling)


def save_mtp(net: MtpNet, path: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Weights and config in one safetensors file."""
    save_net(net, net.config, path, dtype)


def load_mtp(path: Path, target: LlamaModel) -> MtpNet:
    """A module for this target, in its dtype and on its device: of a file that `save_mtp` wrote, or
    of a folder that others published, which may be the target's own. Raises InputError for anything
    that does not fit, naming the tensor or the size."""
    if is_published(path):
        return load_module(path, target)
    net = MtpNet(MtpConfig(**read_config(path)), target)
    load_weights(net, path)
    return net.to(target.device, target.dtype).requires_grad_(False)
