"""EAGLE-3 as published: the authors' layout, DeepSpec's and that of speculators.

  SafeAILab/EAGLE      eagle/model/cnets.py, ea_model.py at cb7e084; sgl-project/SpecForge
                       modeling/draft/llama3_eagle.py at a6b6b02 writes the same with fc_norm.
                       `midlayer.*`; no layer ids: the targets's 2, L // 2 and L - 3; embedding the
                       target's, or its own where target_hidden_size differs
  deepseek-ai/DeepSpec modeling/eagle3/qwen3/modeling.py at afdfa7c. `layers.0.*` with q and k
                       norms; five features by output ids; full vocabulary, copies of embedding and
                       head
  speculators          models/eagle3/core.py, model_definitions.py at v0.7.0. `layers.0.*`, Llama or
                       Qwen3; the layer's sizes in transformer_layer_config

In all of them q, k and v take [norm(embedding of token t + 1); norm(g_t)] in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from lessons.lib.draft.checkpoints.folder import Checkpoint, drop_copies, settle_vocabulary
from lessons.lib.draft.checkpoints.sizes import check_num_layers, from_outputs, read_sizes
from lessons.lib.draft.eagle3_net import AUTHORS_LAYER, Eagle3Config, Eagle3Net
from lessons.lib.model.features import eagle3_layers
from lessons.lib.model.llama import LlamaModel

_IDS = "eagle_aux_hidden_state_layer_ids"
_FLAGS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")


def read_authors(checkpoint: Checkpoint, model: LlamaModel) -> Eagle3Net:
    """SafeAILab and SpecForge. A list of layer ids, where there is one, names inputs as vLLM's."""
    config = checkpoint.config
    given = config.get(_IDS) or (config.get("eagle_config") or {}).get(_IDS)
    return _read(checkpoint, config, given or eagle3_layers(model.config.num_layers), model)


def read_deepspec(checkpoint: Checkpoint, model: LlamaModel) -> Eagle3Net:
    """DeepSpec."""
    config, num_layers = checkpoint.config, model.config.num_layers
    check_num_layers(checkpoint, config.get("num_target_layers"), model.config)
    if "target_layer_ids" not in config:
        raise checkpoint.fail("target_layer_ids is missing")
    layers = from_outputs(checkpoint, config["target_layer_ids"], num_layers)
    return _read(checkpoint, config, layers, model)


def read_speculators(checkpoint: Checkpoint, model: LlamaModel) -> Eagle3Net:
    """vLLM's speculators."""
    sizes = checkpoint.config.get("transformer_layer_config") or {}
    layers = checkpoint.config.get(_IDS) or eagle3_layers(model.config.num_layers)
    return _read(checkpoint, sizes, layers, model)


def _read(
    checkpoint: Checkpoint, sizes: dict[str, Any], layers: Sequence[int], model: LlamaModel
) -> Eagle3Net:
    config, source = checkpoint.config, str(checkpoint.folder)
    body = read_sizes(checkpoint, sizes, model.config)
    if body.num_layers != 1:
        raise checkpoint.fail(f"{body.num_layers} draft layers; an EAGLE-3 drafter here has one")
    tensors = checkpoint.tensors()
    drop_copies(tensors, model, head=None)
    with checkpoint.naming():
        net_config = Eagle3Config(
            body,
            config.get("draft_vocab_size") or body.vocab_size,
            tuple(layers),
            config.get("target_hidden_size"),
            has_embedding="embed_tokens.weight" in tensors,
            **{flag: bool(config.get(flag, False)) for flag in _FLAGS},
        )
        net_config.check_target(model.config)
    num_drafted = net_config.draft_vocab_size
    settle_vocabulary(tensors, body.vocab_size, num_drafted, source)
    if num_drafted == body.vocab_size:
        tensors["d2t"] = torch.zeros(num_drafted, dtype=torch.int64)
    is_numbered = any(name.startswith("layers.0.") for name in tensors)
    net = Eagle3Net(net_config)
    net.load_tensors(tensors, source, "layers.0" if is_numbered else AUTHORS_LAYER)
    return net.to(model.device, model.dtype).requires_grad_(False)
