"""DSpark: one pass drafts a block, tiny serial steps make it coherent and say how sure they are.

How many of the drafts are verified is not decided here but by `dspark_planner`, for a whole batch.
Method: arXiv 2607.05147.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from lessons.lib.config import SamplingParams
from lessons.lib.draft.checkpoints import is_published, load_as
from lessons.lib.draft.dflash import DFlashProposer
from lessons.lib.draft.dspark_net import DSparkConfig, DSparkNet
from lessons.lib.draft.lockstep import Drafting, by_row
from lessons.lib.draft.net_file import load_weights, read_config, save_net
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.model.llama import LlamaModel
from lessons.lib.sampling import logits_to_probs


class DSparkProposer(DFlashProposer):
    """Owns what DFlashProposer owns, and counts its draws.

    Every draft is drawn with a random number that was never used before. One that belonged to its
    place in the text would be used again when the place is drafted again; confidences of two steps
    ago, which set the budget, would then tell about the very drafts that the budget is for.
    """

    _net: DSparkNet

    def __init__(
        self, net: DSparkNet, target: LlamaModel, sampling: SamplingParams | None = None
    ) -> None:
        """As for DFlashProposer."""
        super().__init__(net, target, sampling)
        self._num_drawn = 0

    def drafting(self, context_ids: Sequence[int], num_draft_tokens: int) -> Drafting:
        """One pass, then draft by draft: correct the row's logits by the draft before, draw.

        The proposal carries the confidence of each draft, which was settled before it was drawn;
        none where the network has no confidence head.
        """
        net, config = self._net, self._net.config
        hidden = yield from self._draft_rows(context_ids, num_draft_tokens)
        base = yield by_row(net.base_logits, hidden, settings=(self._target,))
        temperatures = config.temperatures or (1.0,) * config.num_drafts
        token_ids: list[int] = []
        laws: list[torch.Tensor] = []
        confidences: list[float] = []
        state = None
        for index, temperature in zip(range(len(hidden)), temperatures, strict=False):
            row, previous = hidden[index, None], [context_ids[-1], *token_ids][-1:]
            inputs = row, torch.tensor(previous, device=row.device), state
            bias, state, doubt = yield by_row(net.heads, *inputs)
            if doubt is not None:
                confidences.append(float((doubt.float() / temperature).sigmoid()))
            logits = net.to_target_vocabulary(base[index] + bias[0])
            laws.append(logits_to_probs(logits, self._sampling))
            token_ids.append(self._pick(laws[-1]))
        probs = None if self._sampling.is_greedy else torch.stack(laws)
        has_confidence = config.enable_confidence_head
        return DraftProposal(token_ids, probs, confidences=confidences if has_confidence else None)

    def _pick(self, law: torch.Tensor) -> int:
        """A token of law [vocab]; a greedy law has all mass on one."""
        if self._sampling.is_greedy:
            return int(law.argmax())
        self._num_drawn += 1
        return self._random.draw(law, self._num_drawn)


def save_dspark(net: DSparkNet, path: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Weights and config, temperatures included, in one safetensors file."""
    save_net(net, net.config, path, dtype)


def load_dspark(path: Path, target: LlamaModel) -> DSparkNet:
    """As `load_dflash`."""
    if is_published(path):
        return load_as(DSparkNet, path, target)
    config = DSparkConfig(**read_config(path))
    config.check_target(target.config)
    net = DSparkNet(config)
    load_weights(net, path)
    return net.to(target.device, target.dtype)
