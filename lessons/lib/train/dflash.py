"""DFlash (arXiv 2602.06036): masks behind random anchors, cross-entropy weighted by position.

All blocks of a text go through the network in one pass: each sees the target's states before its
own anchor and itself, and nothing of the other blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from kernels.runtime import InputError
from lessons.lib.draft.dflash import load_dflash, save_dflash
from lessons.lib.draft.dflash_net import DFlashConfig, DFlashNet, dflash_layers
from lessons.lib.model.llama import LlamaModel
from lessons.lib.train.candidates import Candidates, draw_candidates, soft_cross_entropy
from lessons.lib.train.data import Sample
from lessons.lib.train.held_out import HeldOut, following, has_token, is_response
from lessons.lib.train.target_pass import TargetBatch

FILE = "model.safetensors"
_MEASURED_EVERY = 4  # positions


@dataclass(frozen=True)
class DFlashSettings:
    """Layers of the drafter, states it reads, rows of a block with the anchor's, a token that no
    text holds; blocks of a text in a step; how fast the weight of later rows falls; the share of
    the loss that compares with the target's law instead of its token; head rows drawn beside the
    candidates."""

    num_layers: int = 2
    num_features: int = 3
    block_size: int = 8
    mask_token_id: int = 4
    num_anchors: int = 24
    decay: float = 4.0
    soft_share: float = 0.5
    num_drawn: int = 1024


class DFlashRecipe:
    """See `Recipe`. DSpark trains on the same blocks."""

    name, title = "dflash", "DFlash"
    Settings: Any = DFlashSettings

    def __init__(self, model: LlamaModel, settings: Any, samples: Sequence[Sample]) -> None:
        self.settings, self._model = settings, model
        if any(settings.mask_token_id in sample.token_ids for sample in samples):
            raise InputError(f"mask_token_id {settings.mask_token_id} is in a text; take another")
        self.layers = dflash_layers(model.config.num_layers, settings.num_features)
        self.net = self.make_net()
        start_from_target(self.net, model)
        self.net.to(model.device)

    def make_net(self) -> DFlashNet:
        """Of these settings, random."""
        return DFlashNet(DFlashConfig(**self.config_fields()))

    def config_fields(self) -> dict[str, Any]:
        """Layers are shaped as the target's, so that they can start from its own."""
        return {
            "body": replace(self._model.config, num_layers=self.settings.num_layers),
            "feature_layers": self.layers,
            "block_size": self.settings.block_size,
            "mask_token_id": self.settings.mask_token_id,
        }

    def loss(self, batch: TargetBatch, generator: torch.Generator) -> torch.Tensor:
        """Mean over the drafting rows whose token is known, weighted by place in the block."""
        anchors = self._draw_anchors(batch, generator)
        hidden = self.blocks(batch, anchors)
        steps = torch.arange(hidden.shape[2], device=hidden.device)
        places = (anchors[:, :, None] + 1 + steps).flatten(1)
        known = has_token(batch, places)
        weights = torch.exp(-steps / self.settings.decay).repeat(anchors.shape[1])
        wanted = [batch.token_ids.flatten(), batch.top_ids[batch.top_probs > 0]]
        vocab, num_drawn = self._model.config.vocab_size, self.settings.num_drawn
        candidates = draw_candidates(torch.cat(wanted), vocab, num_drawn, generator)
        losses = self.row_losses(batch, hidden.flatten(1, 2)[known], places, known, candidates)
        weights = weights.expand_as(known)[known]
        return (losses * weights).sum() / weights.sum()

    def row_losses(
        self,
        batch: TargetBatch,
        hidden: torch.Tensor,
        places: torch.Tensor,
        known: torch.Tensor,
        candidates: Candidates,
    ) -> torch.Tensor:
        """hidden [n, hidden] of the n rows that are `known` [b, m], predicting the tokens at
        `places` [b, m] -> their losses [n]."""
        head = F.embedding(candidates.ids, self._model.lm_head)
        log_probs = candidates.log_probs(F.linear(hidden, head.to(hidden.dtype)))
        return self.cross_entropy(batch, log_probs, places, known, candidates)

    def cross_entropy(
        self,
        batch: TargetBatch,
        log_probs: torch.Tensor,
        places: torch.Tensor,
        known: torch.Tensor,
        candidates: Candidates,
    ) -> torch.Tensor:
        """`text_and_law_loss` with the share of the settings."""
        share = self.settings.soft_share
        return text_and_law_loss(batch, log_probs, places, known, candidates, share)

    @torch.no_grad()
    def measure(self, batch: TargetBatch, num_positions: int) -> HeldOut:
        """Behind every fourth position of the responses."""
        first = max(0, int(batch.prompt_lens.min()) - 1)
        anchors = torch.arange(first, batch.token_ids.shape[1], _MEASURED_EVERY)
        anchors = anchors.to(batch.token_ids.device).expand(len(batch.token_ids), -1)
        guesses = self.drafts(batch, anchors)[0]
        steps = range(min(num_positions, guesses.shape[2]))
        places = [anchors + 1 + step for step in steps]
        return HeldOut.of(
            [guesses[:, :, step] == following(batch, places[step]) for step in steps],
            [is_response(batch, place) & has_token(batch, place) for place in places],
        )

    def drafts(
        self, batch: TargetBatch, anchors: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Greedy drafts [b, m, drafts] behind anchors [b, m], and confidence logits if any."""
        hidden = self.blocks(batch, anchors)
        # Rows of a slice with more dimensions would be multiplied by copies of the head.
        logits = F.linear(hidden.flatten(0, 2), self._model.lm_head)
        return logits.argmax(-1).view(hidden.shape[:3]), None

    def finish(self, batches: Sequence[TargetBatch]) -> None:
        """Nothing."""

    def save(self, folder: Path) -> None:
        """One file with its config."""
        save_dflash(self.net, folder / FILE)

    def load(self, folder: Path) -> None:
        """Those of the same sizes."""
        self.net.load_state_dict(load_dflash(folder / FILE, self._model).state_dict())

    def blocks(self, batch: TargetBatch, anchors: torch.Tensor) -> torch.Tensor:
        """Blocks behind anchors [b, m] in one pass -> [b, m, drafting rows, hidden]."""
        size, device = self.settings.block_size, anchors.device
        tokens = batch.token_ids
        ids = tokens.new_full((*anchors.shape, size), self.settings.mask_token_id)
        ids[:, :, 0] = tokens.gather(1, anchors)
        positions = (anchors[:, :, None] + torch.arange(size, device=device)).flatten(1)
        every = torch.arange(tokens.shape[1], device=device)
        before = (every < anchors[:, :, None]).repeat_interleave(size, 1)
        block = torch.arange(anchors.shape[1], device=device).repeat_interleave(size)
        own = (block[:, None] == block).expand(len(tokens), -1, -1)
        features = batch.features(self.layers).to(self.net.fc.weight.dtype)
        context = self.net.context(features, every)
        embeds = F.embedding(ids.flatten(1), self._model.embedding)
        mask = torch.cat([before, own], -1)[:, None]  # the same for all heads
        hidden = self.net(embeds, positions, context, mask)
        return hidden.unflatten(1, (-1, size))[:, :, not self.net.config.anchor_predicts :]

    def _draw_anchors(self, batch: TargetBatch, generator: torch.Generator) -> torch.Tensor:
        """[b, num_anchors], from the token before the response to the last but one."""
        first = batch.prompt_lens[:, None] - 1
        span = batch.lengths[:, None] - 1 - first
        random = torch.rand(len(span), self.settings.num_anchors, generator=generator)
        return first + (random.to(span.device) * span).long()


def text_and_law_loss(
    batch: TargetBatch,
    log_probs: torch.Tensor,
    places: torch.Tensor,
    known: torch.Tensor,
    candidates: Candidates,
    soft_share: float,
) -> torch.Tensor:
    """Cross-entropy [n] of log_probs [n, candidates], which predict the n of the `places` [b, m]
    that are `known` [b, m]: with the text's token and, for its share, with the target's law."""
    hard = -candidates.pick(log_probs, following(batch, places)[known][:, None])[:, 0]
    ids, probs = target_law(batch, places, known)
    soft = soft_cross_entropy(candidates.pick(log_probs, ids), probs)
    return (1 - soft_share) * hard + soft_share * soft


def target_law(
    batch: TargetBatch, places: torch.Tensor, known: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The target's likeliest ids and their probabilities [n, k] for those of `places` [b, m] that
    are `known` [b, m]: what it thought one token before."""
    rows = torch.arange(len(places), device=places.device)[:, None].expand_as(places)[known]
    before = places[known] - 1
    return batch.top_ids[rows, before], batch.top_probs[rows, before]


def start_from_target(net: DFlashNet, model: LlamaModel) -> None:
    """The target's last layers and norm; of the states, the highest is passed on."""
    config = model.config
    sizes = [config.num_heads, config.num_kv_heads, config.num_kv_heads]
    state = net.state_dict()
    for index, layer in enumerate(model.layers[-len(net.layers) :]):
        parts = layer.qkv.to_dense().split([heads * config.head_dim for heads in sizes])
        gate, up = layer.gate_up.to_dense().chunk(2)
        state |= {
            f"layers.{index}.input_layernorm.weight": layer.attn_norm,
            f"layers.{index}.self_attn.q_proj.weight": parts[0],
            f"layers.{index}.self_attn.k_proj.weight": parts[1],
            f"layers.{index}.self_attn.v_proj.weight": parts[2],
            f"layers.{index}.self_attn.o_proj.weight": layer.attn_out.to_dense(),
            f"layers.{index}.post_attention_layernorm.weight": layer.mlp_norm,
            f"layers.{index}.mlp.gate_proj.weight": gate,
            f"layers.{index}.mlp.up_proj.weight": up,
            f"layers.{index}.mlp.down_proj.weight": layer.down.to_dense(),
        }
    state["norm.weight"] = model.final_norm
    state["hidden_norm.weight"] = model.layers[-1].attn_norm
    hidden, fuse = config.hidden_size, 0.1 * state["fc.weight"]
    fuse[:, -hidden:] += torch.eye(hidden)
    state["fc.weight"] = fuse
    net.load_state_dict(state)
