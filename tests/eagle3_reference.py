"""EAGLE-3 written down once more, slowly: no cache, no fused weights, every row from the start."""

import torch
import torch.nn.functional as F

from tests.engine_models import reference_model


def target_features(text, layers, kind="llama"):
    """[len(text), len(layers) * hidden] from transformers."""
    with torch.no_grad():
        states = reference_model(kind)(torch.tensor([text]), output_hidden_states=True)
    return torch.cat([states.hidden_states[layer][0] for layer in layers], -1)


class Reference:
    """The drafter of published weights `tensors` for a target of `config`; `layer` is what they
    call the layer. What a drafter has of norms and maps shows in its tensors."""

    def __init__(
        self, tensors, config, embedding, layer="midlayer", before_residual=False, feeds_norm=False
    ):
        self.tensors, self.config, self.layer = tensors, config, layer
        self.embedding = tensors.get("embed_tokens.weight", embedding)
        self.before_residual, self.feeds_norm = before_residual, feeds_norm
        count = len(tensors["lm_head.weight"])
        self.target_ids = tensors.get("d2t", torch.zeros(count).long()) + torch.arange(count)

    def log_probs(self, features, next_ids, guesses):
        """Log-law over the draft vocabulary behind `guesses`, which follow the last of next_ids.

        features [n, k * hidden] of positions 0 .. n - 1, next_ids [n] the tokens behind them.
        """
        given = self._linear("fc", self._norm_features(features))
        for count in range(len(guesses) + 1):
            tokens = [*next_ids, *guesses[:count]]
            out = self._layer(self.embedding[tokens], given)
            final = self._norm("norm", out[-1:])
            # Its own output is the next row's hidden.
            given = torch.cat([given, final if self.feeds_norm else out[-1:]])
        return F.linear(final[0], self.tensors["lm_head.weight"]).log_softmax(-1)

    def _norm_features(self, features):
        if "input_norm.weight" in self.tensors:
            return self._norm("input_norm", features)
        if "fc_norm.0.weight" not in self.tensors:
            return features
        width = len(self.tensors["fc_norm.0.weight"])
        parts = [features[:, at : at + width] for at in range(0, features.shape[1], width)]
        return torch.cat([self._norm(f"fc_norm.{i}", part) for i, part in enumerate(parts)], -1)

    def _layer(self, embeds, hidden):
        config, rows = self.config, len(embeds)
        inputs = torch.cat(
            [
                self._norm(f"{self.layer}.input_layernorm", embeds),
                self._norm(f"{self.layer}.hidden_norm", hidden),
            ],
            -1,
        )
        query, key, value = (
            self._linear(f"{self.layer}.self_attn.{part}_proj", inputs)
            .view(rows, -1, config.head_dim)
            .transpose(0, 1)
            for part in "qkv"
        )
        if f"{self.layer}.self_attn.q_norm.weight" in self.tensors:
            query = self._norm(f"{self.layer}.self_attn.q_norm", query)
            key = self._norm(f"{self.layer}.self_attn.k_norm", key)
        key, value = (t.repeat_interleave(config.group_size, 0) for t in (key, value))
        scores = self._turn(query) @ self._turn(key).transpose(1, 2) / config.head_dim**0.5
        scores = scores.masked_fill(torch.ones(rows, rows).triu(1).bool(), -torch.inf)
        mixed = (scores.softmax(-1) @ value).transpose(0, 1).flatten(1)
        if self.before_residual:
            hidden = self._norm(f"{self.layer}.hidden_norm", hidden)
        hidden = hidden + self._linear(f"{self.layer}.self_attn.o_proj", mixed)
        normed = self._norm(f"{self.layer}.post_attention_layernorm", hidden)
        gate = F.silu(self._linear(f"{self.layer}.mlp.gate_proj", normed))
        inner = gate * self._linear(f"{self.layer}.mlp.up_proj", normed)
        return hidden + self._linear(f"{self.layer}.mlp.down_proj", inner)

    def _turn(self, heads):
        """RoPE on [heads, rows, head_dim]; row i stands at position i."""
        half = self.config.head_dim // 2
        rates = self.config.rope_theta ** (-torch.arange(half) / half)
        angles = torch.outer(torch.arange(heads.shape[1]).float(), rates)
        cos, sin = angles.cos(), angles.sin()
        left, right = heads[..., :half], heads[..., half:]
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)

    def _linear(self, name, rows):
        return rows @ self.tensors[f"{name}.weight"].T

    def _norm(self, name, rows):
        scale = (rows.pow(2).mean(-1, keepdim=True) + self.config.rms_norm_eps).rsqrt()
        return rows * scale * self.tensors[f"{name}.weight"]


def best_chain(reference, features, next_ids, count):
    """The likeliest guess behind the likeliest guess."""
    guesses = []
    while len(guesses) < count:
        law = reference.log_probs(features, next_ids, guesses)
        guesses.append(int(reference.target_ids[law.argmax()]))
    return guesses


def best_tree(reference, features, next_ids, count, width, num_levels):
    """Paths of the tree as a set, found by beam search over whole paths."""
    found, beam = {}, [((), 0.0)]
    for _ in range(num_levels):
        children = {}
        for path, score in beam:
            best = reference.log_probs(features, next_ids, path).topk(width)
            for value, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                children[(*path, int(reference.target_ids[index]))] = score + value
        found |= children
        beam = sorted(children.items(), key=lambda item: -item[1])[:width]
    return set(sorted(found, key=lambda path: -found[path])[:count])
