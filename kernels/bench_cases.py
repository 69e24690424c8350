"""What `kernels.bench` times: every operation at the shapes of decoding and of verification."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from kernels.acceptance import TreeLinks, accept_chain, accept_tree_delta, accept_tree_greedy
from kernels.draft_topk import draft_topk, draft_topk_ref
from kernels.kv_move import cache_pointers, kv_move, kv_move_ref
from kernels.linear import linear, linear_ref, pack
from kernels.rms_norm import add_rms_norm, add_rms_norm_ref
from kernels.tree_attention import tree_attention, tree_attention_ref
from kernels.tree_layout import TreeLayout, unpack_bits

EPS = 1e-5


class Model(NamedTuple):
    """The shapes a case is cut from."""

    name: str
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    num_layers: int
    vocab_size: int
    draft_vocab: int


MODELS = {
    "cpu": Model("SmolLM2-135M", 9, 3, 64, 576, 30, 49152, 16384),
    "cuda": Model("Llama-3.1-8B", 32, 8, 128, 4096, 32, 128256, 32000),
}


class Case(NamedTuple):
    """One operation at one shape. `best` is None where torch has no operation of its own."""

    op: str
    shape: str
    run: Callable[[], object]
    reference: Callable[[], object]
    best: Callable[[], object] | None
    num_bytes: int


def cases(model: Model, dtype: torch.dtype, device: torch.device) -> Iterator[Case]:
    """Every operation at the shapes of decoding and of tree verification."""
    for batch, num_nodes, context in [(1, 1, 1024), (1, 32, 1024), (8, 16, 1024)]:
        yield attention_case(model, dtype, device, batch, num_nodes, context)
    for batch in (1, 8):
        yield from acceptance_cases(model, device, batch, num_nodes=16)
        yield move_case(model, dtype, device, batch)
    for num_rows in (1, 8):
        yield head_case(model, dtype, device, num_rows, k=8)
    for num_rows in (1, 64):
        yield norm_case(model, dtype, device, num_rows)
    for num_rows in (1, 16):
        yield linear_case(model, dtype, device, num_rows)


def heap_parents(num_nodes: int) -> list[int]:
    """Parents of a binary tree of at most 63 nodes in breadth-first order, -1 for the root."""
    return [(node - 1) // 2 if node else -1 for node in range(num_nodes)]


def attention_case(
    model: Model, dtype: torch.dtype, device: torch.device, batch: int, num_nodes: int, context: int
) -> Case:
    """torch's best is SDPA on keys and values that lie gathered and padded already."""
    page_size, length = 16, context + num_nodes
    num_pages = -(-length // page_size)
    kv_shape = (batch * num_pages, page_size, model.num_kv_heads, model.head_dim)
    q_shape = (batch * num_nodes, model.num_heads, model.head_dim)
    k_cache, v_cache = (torch.randn(kv_shape, device=device).to(dtype) for _ in range(2))
    q = torch.randn(q_shape, device=device).to(dtype)
    bits: list[int] = []
    for node, parent in enumerate(heap_parents(num_nodes)):
        bits.append((bits[parent] if node else 0) | 1 << node)
    layout = TreeLayout(
        torch.randperm(batch * num_pages, device=device).view(batch, num_pages).int(),
        torch.full((batch,), context, device=device).int(),
        torch.arange(0, batch * num_nodes + 1, num_nodes, device=device).int(),
        torch.tensor(bits, device=device).repeat(batch)[:, None],
        num_nodes,
    )
    mask = functional.pad(
        unpack_bits(layout.mask_bits[:num_nodes], num_nodes), (context, 0), value=1
    )
    gathered = q.view(batch, num_nodes, *q_shape[1:]).transpose(1, 2).contiguous()
    shape = (batch, model.num_kv_heads, length, model.head_dim)
    keys, values = (torch.randn(shape, device=device).to(dtype) for _ in range(2))
    scale = model.head_dim**-0.5
    return Case(
        "tree_attention",
        f"batch {batch}, {num_nodes} nodes, context {context}",
        lambda: tree_attention(q, k_cache, v_cache, layout, scale),
        lambda: tree_attention_ref(q, k_cache, v_cache, layout, scale),
        lambda: functional.scaled_dot_product_attention(
            gathered, keys, values, attn_mask=mask, scale=scale, enable_gqa=True
        ),
        dtype.itemsize * (2 * keys.numel() + 2 * q.numel()),
    )


def acceptance_cases(
    model: Model, device: torch.device, batch: int, num_nodes: int
) -> Iterator[Case]:
    """Greedy and delta on binary trees, chains with laws. The floor: the rows that are drawn from.

    The reference walks on the host and first brings everything there.
    """
    nodes = range(num_nodes)
    first = [2 * node + 1 if 2 * node + 1 < num_nodes else -1 for node in nodes]
    sibling = [node + 1 if node % 2 and node + 1 < num_nodes else -1 for node in nodes]
    indptr = torch.arange(0, batch * num_nodes + 1, num_nodes, dtype=torch.int32, device=device)
    tokens = torch.arange(num_nodes, device=device).repeat(batch)

    def links(children: list[int], siblings: list[int]) -> TreeLinks:
        first_child, next_sibling = torch.tensor([children, siblings], device=device).int()
        return TreeLinks(
            tokens, first_child.repeat(batch), next_sibling.repeat(batch), indptr, num_nodes
        )

    def host(links: TreeLinks) -> TreeLinks:
        a, b, c, d = (tensor.cpu() for tensor in links[:4])
        return TreeLinks(a, b, c, d, num_nodes)

    tree, path = links(first, sibling), links([*nodes[1:], -1], [-1] * num_nodes)
    total = batch * num_nodes
    target, draft = torch.randn(2, total, model.vocab_size, device=device).softmax(-1)
    coins, finals = torch.rand(2, total, device=device)
    argmax = torch.tensor(first, device=device).clamp(min=0).repeat(batch)
    law_bytes, shape = batch * model.vocab_size * 4, f"batch {batch}, {num_nodes} nodes"
    yield Case(
        "accept_greedy",
        shape,
        lambda: accept_tree_greedy(argmax, tree),
        lambda: accept_tree_greedy(argmax.cpu(), host(tree)),
        None,
        argmax.numel() * 8,
    )
    yield Case(
        "accept_delta",
        shape,
        lambda: accept_tree_delta(target, tree, coins, finals),
        lambda: accept_tree_delta(target.cpu(), host(tree), coins.cpu(), finals.cpu()),
        None,
        law_bytes,
    )
    yield Case(
        "accept_chain",
        shape,
        lambda: accept_chain(target, draft, path, coins, finals),
        lambda: accept_chain(target.cpu(), draft.cpu(), host(path), coins.cpu(), finals.cpu()),
        None,
        2 * law_bytes,
    )


def move_case(model: Model, dtype: torch.dtype, device: torch.device, batch: int) -> Case:
    """Compaction of an accepted path of five nodes a request, in all layers."""
    shape = (batch * 2, 16, model.num_kv_heads, model.head_dim)
    caches = [torch.randn(shape, device=device).to(dtype) for _ in range(2 * model.num_layers)]
    offsets = torch.arange(0, batch * 4 + 1, 4, device=device)
    base = torch.arange(batch, device=device).repeat_interleave(4) * 32
    source = base + torch.tensor([2, 5, 11, 15], device=device).repeat(batch)
    target = base + torch.tensor([1, 2, 3, 4], device=device).repeat(batch)
    pointers = cache_pointers(caches)
    return Case(
        "kv_move",
        f"batch {batch}, 4 rows a request, {len(caches)} caches",
        lambda: kv_move(caches, pointers, source, target, offsets),
        lambda: kv_move_ref(caches, source, target),
        None,
        2 * len(caches) * len(source) * model.num_kv_heads * model.head_dim * dtype.itemsize,
    )


def head_case(
    model: Model, dtype: torch.dtype, device: torch.device, num_rows: int, k: int
) -> Case:
    """torch's best keeps the dtype of the weight and materialises the logits."""
    hidden = torch.randn(num_rows, model.hidden_size, device=device).to(dtype)
    weight = torch.randn(model.draft_vocab, model.hidden_size, device=device).to(dtype)
    d2t = torch.arange(model.draft_vocab, device=device)

    def best() -> tuple[Tensor, Tensor]:
        logits = functional.linear(hidden, weight)
        values, ids = logits.topk(k)
        return values - logits.float().logsumexp(-1, keepdim=True), ids + d2t[ids]

    return Case(
        "draft_topk",
        f"{num_rows} rows, vocabulary {model.draft_vocab}, k {k}",
        lambda: draft_topk(hidden, weight, d2t, k),
        lambda: draft_topk_ref(hidden, weight, d2t, k),
        best,
        weight.numel() * dtype.itemsize,
    )


def norm_case(model: Model, dtype: torch.dtype, device: torch.device, num_rows: int) -> Case:
    """torch's best is its own fused norm behind a separate sum."""
    x, residual = (torch.randn(num_rows, model.hidden_size, device=device).to(dtype) for _ in "xr")
    weight = torch.ones(model.hidden_size, device=device, dtype=dtype)
    return Case(
        "add_rms_norm",
        f"{num_rows} rows, hidden {model.hidden_size}",
        lambda: add_rms_norm(x, residual, weight, EPS),
        lambda: add_rms_norm_ref(x, residual, weight, EPS),
        lambda: functional.rms_norm(x + residual, (model.hidden_size,), weight, EPS),
        4 * x.numel() * dtype.itemsize,
    )


def linear_case(model: Model, dtype: torch.dtype, device: torch.device, num_rows: int) -> Case:
    """A square product; torch's best reads the weight as it was given."""
    x = torch.randn(num_rows, model.hidden_size, device=device).to(dtype)
    weight = torch.randn(model.hidden_size, model.hidden_size, device=device).to(dtype)
    packed = pack(weight)
    return Case(
        "linear",
        f"{num_rows} rows, {model.hidden_size} to {model.hidden_size}",
        lambda: linear(x, packed),
        lambda: linear_ref(x, weight),
        lambda: functional.linear(x, weight),
        (weight.numel() + 2 * x.numel()) * dtype.itemsize,
    )
