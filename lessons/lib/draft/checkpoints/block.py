"""DFlash and DSpark as published: z-lab's layout, DeepSpec's, SpecForge's and that of speculators.

  z-lab/dflash         dflash/model.py at 44947fb. Settings in dflash_config, block_size there or at
                       the top; output ids; neither embedding nor head; the anchor predicts nothing
  deepseek-ai/DeepSpec modeling/dspark/qwen3/modeling.py at afdfa7c. Settings at the top; output
                       ids; copies of embedding and head; the anchor predicts. Its DFlash is the
                       same class with markov_rank 0
  sgl-project/SpecForge modeling/draft/dspark.py at a6b6b02. As DeepSpec, with the settings in
                       dflash_config and no embedding
  speculators          models/dflash/core.py, models/dspark/core.py at v0.7.0. Input ids;
                       sample_from_anchor says whether the anchor predicts; own embedding and head,
                       over a reduced vocabulary or not; sizes in transformer_layer_config

The tensors have the same names everywhere: `fc`, `hidden_norm`, `norm`, `layers.N.*`,
`markov_head.*`, `confidence_head.proj.*`. Layers have Qwen3's norms of queries and keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lessons.lib.config import ModelConfig
from lessons.lib.draft.checkpoints.folder import (
    Checkpoint,
    Tensors,
    drop_copies,
    settle_vocabulary,
)
from lessons.lib.draft.checkpoints.sizes import check_num_layers, from_outputs, read_sizes
from lessons.lib.draft.dflash_net import DFlashConfig, DFlashNet, dflash_layers
from lessons.lib.draft.dspark_net import DSparkConfig, DSparkNet
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.weights import compare_tensors

_HEADS: dict[str, Any] = {  # what is meant where a key is missing
    "markov_rank": 0,
    "markov_head_type": "vanilla",
    "enable_confidence_head": False,
    "confidence_head_with_markov": False,
}
_SPECULATORS_HEADS = {
    "markov_rank": 256,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}


def read_dflash(checkpoint: Checkpoint, model: LlamaModel) -> DFlashNet:
    """z-lab's DFlash."""
    return _read_by_outputs(checkpoint, model, anchor_predicts=False)


def read_dspark(checkpoint: Checkpoint, model: LlamaModel) -> DFlashNet:
    """DeepSpec's and SpecForge's DSpark; DFlash where the Markov head is switched off."""
    return _read_by_outputs(checkpoint, model, anchor_predicts=True)


def read_speculators(checkpoint: Checkpoint, model: LlamaModel) -> DFlashNet:
    """vLLM's speculators."""
    config = checkpoint.config
    is_dspark = config["speculators_model_type"] == "dspark"
    defaults = _SPECULATORS_HEADS if is_dspark else _HEADS
    heads = {key: config.get(key, value) for key, value in defaults.items()}
    layers = config.get("aux_hidden_state_layer_ids")
    if not layers:
        raise checkpoint.fail("aux_hidden_state_layer_ids is missing")
    if config.get("target_hidden_size") not in (None, model.config.hidden_size):
        raise checkpoint.fail("a target_hidden_size that is not the target's is not supported")
    sizes = config.get("transformer_layer_config") or {}
    settings = config | {"anchor_predicts": config.get("sample_from_anchor", is_dspark)}
    return _read(checkpoint, sizes, settings, tuple(layers), heads, model)


def _read_by_outputs(checkpoint: Checkpoint, model: LlamaModel, anchor_predicts: bool) -> DFlashNet:
    """The layouts that name the target's layers by what leaves them."""
    settings = checkpoint.config | (checkpoint.config.get("dflash_config") or {})
    if settings.get("projector_type") not in (None, "dspark"):
        raise checkpoint.fail(f"projector_type {settings['projector_type']!r} is not supported")
    num_layers = model.config.num_layers
    check_num_layers(checkpoint, settings.get("num_target_layers"), model.config)
    if "target_layer_ids" in settings:
        layers = from_outputs(checkpoint, settings["target_layer_ids"], num_layers)
    else:
        layers = dflash_layers(num_layers, settings.get("num_hidden_layers", 0))
    # SpecForge: a head that was trained is there.
    is_trained = bool(settings.get("confidence_head_alpha"))
    defaults = _HEADS | {"enable_confidence_head": is_trained}
    heads = {key: settings.get(key, value) for key, value in defaults.items()}
    settings["anchor_predicts"] = anchor_predicts
    return _read(checkpoint, settings, settings, layers, heads, model)


def _read(
    checkpoint: Checkpoint,
    sizes: dict[str, Any],
    settings: dict[str, Any],
    layers: tuple[int, ...],
    heads: dict[str, Any],
    model: LlamaModel,
) -> DFlashNet:
    for key in ("block_size", "mask_token_id"):
        if settings.get(key) is None:
            raise checkpoint.fail(f"{key} is missing, at the top and in dflash_config")
    body = replace(read_sizes(checkpoint, sizes, model.config), has_qk_norm=True)
    tensors = checkpoint.tensors()
    drop_copies(tensors, model)
    with checkpoint.naming():
        common: dict[str, Any] = {
            "feature_layers": layers,
            "block_size": settings["block_size"],
            "mask_token_id": settings["mask_token_id"],
            "anchor_predicts": bool(settings["anchor_predicts"]),
            "has_embedding": "embed_tokens.weight" in tensors,
            "draft_vocab_size": _own_head(tensors, settings, body),
        }
        net = _build(body, common, heads, checkpoint)
        net.config.check_target(model.config)
    num_drafted = net.config.draft_vocab_size or body.vocab_size
    settle_vocabulary(tensors, body.vocab_size, num_drafted, str(checkpoint.folder))
    found, expected = (
        {name: tuple(tensor.shape) for name, tensor in part.items()}
        for part in (tensors, net.state_dict())
    )
    compare_tensors(found, expected, str(checkpoint.folder))
    net.load_state_dict(tensors)
    net.check_vocabulary(str(checkpoint.folder))
    return net.to(model.device, model.dtype).requires_grad_(False)


def _own_head(tensors: Tensors, settings: dict[str, Any], body: ModelConfig) -> int | None:
    """Rows of the drafter's own head: it has one, or must, because its vocabulary is reduced."""
    count = settings.get("draft_vocab_size") or body.vocab_size
    return count if "lm_head.weight" in tensors or count != body.vocab_size else None


def _build(
    body: ModelConfig, common: dict[str, Any], heads: dict[str, Any], checkpoint: Checkpoint
) -> DFlashNet:
    if heads["markov_rank"]:
        return DSparkNet(DSparkConfig(body, **common, **heads))
    if heads["enable_confidence_head"]:
        raise checkpoint.fail("a confidence head without a Markov head is not supported")
    return DFlashNet(DFlashConfig(body, **common))
