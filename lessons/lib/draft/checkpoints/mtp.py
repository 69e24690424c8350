"""MTP modules as published: inside the target's own files, or apart in speculators' layout.

  Qwen3-Next, Qwen3.5  `mtp.*` with `fc` over [embedding; hidden]; vLLM
                       model_executor/models/qwen3_next_mtp.py
  MiMo                 `model.mtp_layers.0.*` with `input_proj` over [hidden; embedding], the other
                       way round; XiaomiMiMo/MiMo-7B modeling_mimo.py, vLLM mimo_mtp.py
  DeepSeek-V3, GLM-4.5 `model.layers.L.*` behind the target's L layers, with `eh_proj` over
                       [embedding; hidden]; passes its state on from before the norm of its head;
                       copies of embedding and head; vLLM deepseek_mtp.py
  speculators          `mtp_layers.0.*` over [embedding; hidden]; models/mtp/model_definitions.py at
                       v0.7.0

The block must be that of a dense Llama or Qwen3: experts, MLA, gated attention and biases, which
the families' own large models have, are refused by model_type or by the names and shapes of their
tensors. vLLM masks the embedding of row 0 in MiMo and DeepSeek modules; MiMo's own code does not,
and neither do we.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from lessons.lib.draft.checkpoints.folder import EMBEDDING, LM_HEAD, Checkpoint, drop_copies
from lessons.lib.draft.checkpoints.sizes import check_num_layers, read_sizes
from lessons.lib.draft.mtp_net import MtpConfig, MtpNet
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.weights import compare_tensors


@dataclass(frozen=True)
class _Layout:
    """Where a module lies and what the parts around its block are called."""

    prefix: str
    block: str
    embedding_norm: str
    hidden_norm: str
    projection: str
    final_norm: str
    hidden_first: bool = False
    norm_output: bool = True
    copies: tuple[str, str] = (EMBEDDING, LM_HEAD)

    def file_name(self, name: str) -> str:
        """Name in the file of a tensor of MtpNet."""
        parts = {
            "pre_fc_norm_embedding.weight": self.embedding_norm,
            "pre_fc_norm_hidden.weight": self.hidden_norm,
            "fc.weight": self.projection,
            "norm.weight": self.final_norm,
        }
        if name in parts:
            return f"{self.prefix}{parts[name]}.weight"
        return self.block + name.removeprefix("layers.0.")


_NAMES = ("token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm")


def _layouts(num_layers: int) -> list[_Layout]:
    behind, mimo, apart = f"model.layers.{num_layers}.", "model.mtp_layers.0.", "mtp_layers.0."
    qwen = ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm")
    deepseek = ("enorm", "hnorm", "eh_proj", "shared_head.norm")
    return [
        _Layout("mtp.", "mtp.layers.0.", *qwen),
        _Layout(mimo, mimo, *_NAMES, hidden_first=True),
        _Layout(
            behind,
            behind,
            *deepseek,
            norm_output=False,
            copies=(f"{behind}embed_tokens.weight", f"{behind}shared_head.head.weight"),
        ),
        _Layout(apart, apart, *_NAMES),
    ]


def read_mtp(checkpoint: Checkpoint, model: LlamaModel) -> MtpNet:
    """The module in a folder, which may be the target's own."""
    config, num_layers = checkpoint.config, model.config.num_layers
    sizes = config.get("transformer_layer_config") or config
    if config.get("num_nextn_predict_layers", 1) != 1:
        raise checkpoint.fail(f"{config['num_nextn_predict_layers']} MTP modules; one is run here")
    layout = _find(checkpoint, num_layers)
    is_apart = "speculators_model_type" in config
    tensors = checkpoint.tensors(lambda name: is_apart or name.startswith(layout.prefix))
    drop_copies(tensors, model, *layout.copies)
    body = read_sizes(checkpoint, sizes, model.config)
    if not is_apart:
        check_num_layers(checkpoint, body.num_layers, model.config)
    with checkpoint.naming():
        net = MtpNet(MtpConfig(replace(body, num_layers=1), num_layers, layout.norm_output), model)
    _fill(net, tensors, layout, str(checkpoint.folder))
    return net.to(model.device, model.dtype).requires_grad_(False)


def _find(checkpoint: Checkpoint, num_layers: int) -> _Layout:
    names = checkpoint.names()
    for layout in _layouts(num_layers):
        if layout.file_name("fc.weight") in names:
            return layout
    wanted = ", ".join(layout.file_name("fc.weight") for layout in _layouts(num_layers))
    raise checkpoint.fail(f"no MTP module: none of {wanted} is among the tensors")


def _fill(net: MtpNet, tensors: Mapping[str, torch.Tensor], layout: _Layout, source: str) -> None:
    state = net.state_dict()
    expected = {layout.file_name(name): tuple(tensor.shape) for name, tensor in state.items()}
    compare_tensors({k: tuple(t.shape) for k, t in tensors.items()}, expected, source)
    filled = {name: tensors[layout.file_name(name)] for name in state}
    if layout.hidden_first:
        filled["fc.weight"] = filled["fc.weight"].roll(net.config.body.hidden_size, 1)
    net.load_state_dict(filled)
