"""MTP and FROZEN_KV_MTP once more, slowly: float64, no cache, every row from the start.

Everything of the target comes from transformers: its states, and its keys and values from them.
"""

import functools

import torch
import torch.nn.functional as F

from tests.engine_models import reference_model


def norm(rows, weight, eps):
    scale = (rows.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    return rows * scale * weight


def turned(heads, positions, theta):
    """RoPE on [rows, heads, head_dim]."""
    half = heads.shape[-1] // 2
    rates = theta ** (-torch.arange(half).double() / half)
    angles = torch.outer(positions.double(), rates)[:, None]
    left, right = heads[..., :half], heads[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


def attention(query, key, value, seen):
    """query [n, heads, d] over key, value [m, kv_heads, d] where seen [n, m] -> [n, heads * d]."""
    group = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(group, 1) for part in (key, value))
    scores = torch.einsum("nhd,mhd->hnm", query, key) / query.shape[-1] ** 0.5
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("hnm,mhd->nhd", weights, value).flatten(1)


class Layer:
    """Weights under a prefix of a state dict, of a model of this config."""

    def __init__(self, tensors, prefix, config):
        self.weights = {
            name.removeprefix(prefix): tensor.double()
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }
        self.config = config

    def heads(self, rows, part, positions):
        normed = self.norm(rows, "input_layernorm")
        heads = (normed @ self.weights[f"self_attn.{part}_proj.weight"].T).unflatten(
            1, (-1, self.config.head_dim)
        )
        if part == "v":
            return heads
        if self.config.has_qk_norm:
            heads = self.norm(heads, f"self_attn.{part}_norm")
        return turned(heads, positions, self.config.rope_theta)

    def finish(self, rows, mixed):
        rows = rows + mixed @ self.weights["self_attn.o_proj.weight"].T
        normed = self.norm(rows, "post_attention_layernorm")
        gate = F.silu(normed @ self.weights["mlp.gate_proj.weight"].T)
        inner = gate * (normed @ self.weights["mlp.up_proj.weight"].T)
        return rows + inner @ self.weights["mlp.down_proj.weight"].T

    def norm(self, rows, name):
        return norm(rows, self.weights[f"{name}.weight"], self.config.rms_norm_eps)


@functools.cache
def target_of(kind):
    return reference_model(kind).double()


class Target:
    """The tiny target of a kind, by transformers, on one text."""

    def __init__(self, model, text, kind="qwen3"):
        reference = target_of(kind)
        self.config = model.config
        self.tensors = {name: t.double() for name, t in reference.state_dict().items()}
        with torch.no_grad():
            out = reference(torch.tensor([text]), output_hidden_states=True)
        self.inputs = [state[0] for state in out.hidden_states]  # the last one is normed
        self.embedding = self.tensors["model.embed_tokens.weight"]
        self.head = self.tensors["lm_head.weight"]
        self.text = text

    def key_value(self, layer):
        """What the target's layer keeps of every position."""
        weights = Layer(self.tensors, f"model.layers.{layer}.", self.config)
        places = torch.arange(len(self.text))
        return [weights.heads(self.inputs[layer], part, places) for part in "kv"]


def mtp_logits(net, target, guesses):
    """Logits behind `guesses`, which follow the text; the target knows all but its last token."""
    tensors = {name: tensor.double() for name, tensor in net.state_dict().items()}
    body = net.config.body
    block = Layer(tensors, "layers.0.", body)
    known = len(target.text) - 1
    states, tokens = target.inputs[-1][:known], [*target.text[1:], *guesses]
    for count in range(known, known + len(guesses) + 1):
        embeds = target.embedding[tokens[:count]]
        normed = [
            norm(rows, tensors[f"pre_fc_norm_{name}.weight"], body.rms_norm_eps)
            for name, rows in (("embedding", embeds), ("hidden", states))
        ]
        rows, places = torch.cat(normed, -1) @ tensors["fc.weight"].T, torch.arange(count)
        query, key, value = (block.heads(rows, part, places) for part in "qkv")
        mixed = attention(query, key, value, torch.ones(count, count).tril().bool())
        out = norm(block.finish(rows, mixed), tensors["norm.weight"], body.rms_norm_eps)
        states = torch.cat([states, out[-1:]])
    return out[-1] @ target.head.T


def frozen_logits(net, target, guesses, position_shift=0, kv_layers=None):
    """The same for the drafter that reads keys and values of the target."""
    tensors = {name: tensor.double() for name, tensor in net.state_dict().items()}
    body = net.config.body
    known = len(target.text) - 1
    place = torch.tensor([known - 1 + position_shift])
    state = target.inputs[-1][known - 1 : known]
    for token in [target.text[-1], *guesses]:
        both = torch.cat([target.embedding[[token]], state], -1)
        rows = both @ tensors["pre_projection.weight"].T
        for index, kv_layer in enumerate(kv_layers or net.config.kv_layers):
            layer = Layer(tensors, f"layers.{index}.", body)
            key, value = (part[:known] for part in target.key_value(kv_layer))
            query = layer.heads(rows, "q", place)
            rows = layer.finish(rows, attention(query, key, value, torch.ones(1, known).bool()))
        out = norm(rows, tensors["norm.weight"], body.rms_norm_eps)
        state = out @ tensors["post_projection.weight"].T
    return out[-1] @ target.head.T
