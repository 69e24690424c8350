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
    """The drafter of published weights `tensors` for a target of `config`."""

    def __init__(self, tensors, config, embedding):
        self.tensors, self.config, self.embedding = tensors, config, embedding
        self.target_ids = tensors["d2t"] + torch.arange(len(tensors["d2t"]))

    def log_probs(self, features, next_ids, guesses):
        """Log-law over the draft vocabulary behind `guesses`, which follow the last of next_ids.

        features [n, 3 * hidden] of positions 0 .. n - 1, next_ids [n] the tokens behind them.
        """
        given = self._linear("fc", features)
        for count in range(len(guesses) + 1):
            tokens = [*next_ids, *guesses[:count]]
            out = self._layer(self.embedding[tokens], given)
            given = torch.cat([given, out[-1:]])  # its own output is the next row's hidden
        return F.linear(self._norm("norm", out[-1]), self.tensors["lm_head.weight"]).log_softmax(-1)

    def _layer(self, embeds, hidden):
        config, rows = self.config, len(embeds)
        inputs = torch.cat(
            [
                self._norm("midlayer.input_layernorm", embeds),
                self._norm("midlayer.hidden_norm", hidden),
            ],
            -1,
        )
        query, key, value = (
            self._linear(f"midlayer.self_attn.{part}_proj", inputs)
            .view(rows, -1, config.head_dim)
            .transpose(0, 1)
            for part in "qkv"
        )
        key, value = (t.repeat_interleave(config.group_size, 0) for t in (key, value))
        scores = self._turn(query) @ self._turn(key).transpose(1, 2) / config.head_dim**0.5
        scores = scores.masked_fill(torch.ones(rows, rows).triu(1).bool(), -torch.inf)
        mixed = (scores.softmax(-1) @ value).transpose(0, 1).flatten(1)
        hidden = hidden + self._linear("midlayer.self_attn.o_proj", mixed)
        normed = self._norm("midlayer.post_attention_layernorm", hidden)
        gate = F.silu(self._linear("midlayer.mlp.gate_proj", normed))
        inner = gate * self._linear("midlayer.mlp.up_proj", normed)
        return hidden + self._linear("midlayer.mlp.down_proj", inner)

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
