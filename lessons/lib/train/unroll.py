"""Training-time test of EAGLE-3: the drafter's own steps, unrolled for all positions at a time.

A start s is a text in which the target's features end at position s. Step 0 reads them and predicts
token s + 2; step j reads the output of step j - 1 and token s + 1 + j at position s + j, predicts
token s + 2 + j, and may attend to step 0 of positions up to s and to steps 1 .. j of its own start:
exactly what a drafter has in its KV cache at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from lessons.lib.draft.one_layer import OneLayerNet
from lessons.lib.train.target_pass import TargetBatch


def unroll(
    net: OneLayerNet,
    embedding: torch.Tensor,
    batch: TargetBatch,
    features: torch.Tensor,
    num_steps: int,
    starts: torch.Tensor | None = None,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """For each step (starts [m], output rows [b, m, hidden]). embedding [vocab, hidden],
    features [b, t, 3 * hidden] of the batch.

    starts: those that go on after step 0, all where None. Step j needs token s + 1 + j, so a start
    whose text ends earlier gives rows without meaning, which the caller leaves out.
    """
    tokens, num_positions = batch.token_ids, batch.token_ids.shape[1]
    every = torch.arange(num_positions, device=tokens.device)
    hidden = net.fuse(features.to(next(iter(net.parameters())).dtype))
    rows, query, key, value = net.project(_embed(embedding, tokens, every + 1), hidden, every)
    heads_first = [part.transpose(1, 2) for part in (query, key, value)]
    mixed = F.scaled_dot_product_attention(
        heads_first[0], heads_first[1], heads_first[2], is_causal=True, enable_gqa=True
    )
    hidden = net.finish(rows, mixed.transpose(1, 2).flatten(2))
    yield every, hidden
    starts = every if starts is None else starts.to(tokens.device)
    hidden = hidden[:, starts]
    seen = every <= starts[:, None]
    own: list[tuple[torch.Tensor, torch.Tensor]] = []
    for step in range(1, num_steps):
        embeds = _embed(embedding, tokens, starts + 1 + step)
        rows, query, own_key, own_value = net.project(embeds, hidden, starts + step)
        own.append((own_key, own_value))
        hidden = net.finish(rows, _attend(query, key, value, seen, own))
        yield starts, hidden


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    seen: torch.Tensor,
    own: list[tuple[torch.Tensor, torch.Tensor]],
) -> torch.Tensor:
    """query [b, m, heads, d] over step 0 (key, value [b, t, kv_heads, d]) where seen [m, t], and
    over its own start's later steps (each [b, m, kv_heads, d]) -> [b, m, heads * d]."""
    group = query.shape[2] // key.shape[2]
    query = query.unflatten(2, (key.shape[2], group)) * query.shape[-1] ** -0.5
    shared = torch.einsum("bmkgd,btkd->bmkgt", query, key)
    shared = shared.masked_fill(~seen[:, None, None], -torch.inf)
    single = [(query * own_key.unsqueeze(3)).sum(-1, keepdim=True) for own_key, _ in own]
    weights = torch.cat([shared, *single], -1).float().softmax(-1).to(value.dtype)
    num_positions = key.shape[1]
    mixed = torch.einsum("bmkgt,btkd->bmkgd", weights[..., :num_positions], value)
    for index, (_, own_value) in enumerate(own):
        weight = weights[..., num_positions + index, None]
        mixed = mixed + weight * own_value.unsqueeze(3)
    return mixed.flatten(2)


def _embed(embedding: torch.Tensor, tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Embeddings [b, m, hidden] of the tokens at `places` [m]; behind the end, of the last one."""
    return F.embedding(tokens[:, places.clamp(max=tokens.shape[1] - 1)], embedding)


def learnt_rows(batch: TargetBatch, starts: torch.Tensor, step: int) -> torch.Tensor:
    """[b, m] bool: whether step `step` of a start predicts a token of the response, from a token
    that the text has."""
    known = starts + 1 + step < batch.lengths[:, None]
    return known & (starts + 2 + step >= batch.prompt_lens[:, None])
