"""Tree attention where there is no card: torch's fused attention, one request at a time.

What depends on the batch alone (whose rows, where their KV lies, who sees whom) is worked out once
a forward, so that a layer pays for views and the attention itself. At one token a step that is
the difference between one per cent of the forward and ten.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from kernels.tree_layout import TreeLayout, unpack_bits


class RequestPlan(NamedTuple):
    """One request of the batch, ready for any layer.

    rows         its rows of q
    kv           its positions 0, 1, ...: slots of the cache, or rows of the gathered copy
    is_gathered  which of the two
    mask         additive [group * num_nodes, kv_len] in the dtype of q, None where all is visible
    """

    rows: slice
    kv: slice
    is_gathered: bool
    mask: Tensor | None


class BatchPlan(NamedTuple):
    """KV on pages that follow one another is read where it lies. The rest of the batch is copied
    together in one go a layer, from `gathered_slots` [n] int64 (None where there is nothing)."""

    requests: list[RequestPlan]
    gathered_slots: Tensor | None


def plan_tree_attention(
    layout: TreeLayout, page_size: int, group: int, dtype: torch.dtype
) -> BatchPlan:
    """The plan of a batch; `group` query heads share a KV head. Requests without rows are left out.

    Raises AssertionError where the layout does not fit together.
    """
    layout.check(layout.mask_bits.shape[0])
    bounds, tables = layout.qo_indptr.tolist(), layout.block_table.tolist()
    plans: list[RequestPlan] = []
    gathered: list[int] = []
    for request, context_len in enumerate(layout.context_lens.tolist()):
        rows = slice(bounds[request], bounds[request + 1])
        if rows.start == rows.stop:
            continue
        kv_len = context_len + rows.stop - rows.start
        pages = tables[request][: -(-kv_len // page_size)]
        is_gathered = pages != list(range(pages[0], pages[0] + len(pages)))
        start = len(gathered) if is_gathered else pages[0] * page_size
        if is_gathered:
            slots = [page * page_size + offset for page in pages for offset in range(page_size)]
            gathered += slots[:kv_len]
        mask = _additive_mask(layout.mask_bits[rows], context_len, group, dtype)
        plans.append(RequestPlan(rows, slice(start, start + kv_len), is_gathered, mask))
    device = layout.block_table.device
    return BatchPlan(plans, torch.tensor(gathered, device=device) if gathered else None)


def _additive_mask(
    mask_bits: Tensor, context_len: int, group: int, dtype: torch.dtype
) -> Tensor | None:
    num_nodes = mask_bits.shape[0]
    if num_nodes == 1:
        return None
    hidden = ~unpack_bits(mask_bits, num_nodes)
    mask = torch.zeros(num_nodes, context_len + num_nodes, dtype=dtype, device=hidden.device)
    mask[:, context_len:].masked_fill_(hidden, -torch.inf)
    return mask.repeat(group, 1)


def tree_attention_torch(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, plan: BatchPlan, scale: float
) -> Tensor:
    """Arguments as for `tree_attention`, the layout in the form of its plan.

    The query heads of a KV head are laid out as more rows of it, so no key is copied twice.
    """
    caches = k_cache.flatten(0, 1), v_cache.flatten(0, 1)
    requests, slots = plan
    if len(requests) == 1 and requests[0].rows == slice(0, q.shape[0]) and slots is None:
        return _attend(q, *caches, requests[0], scale)
    copies = caches if slots is None else [cache.index_select(0, slots) for cache in caches]
    out = torch.zeros_like(q)
    for request in requests:
        keys, values = copies if request.is_gathered else caches
        out[request.rows] = _attend(q[request.rows], keys, values, request, scale)
    return out


def _attend(q: Tensor, keys: Tensor, values: Tensor, plan: RequestPlan, scale: float) -> Tensor:
    """q [num_nodes, heads, head_dim] of one request; keys, values [slots, kv_heads, head_dim]."""
    grouped = q.unflatten(1, (keys.shape[1], -1)).permute(1, 2, 0, 3)
    attended = functional.scaled_dot_product_attention(
        grouped.flatten(1, 2)[None],
        keys[plan.kv].transpose(0, 1)[None],
        values[plan.kv].transpose(0, 1)[None],
        attn_mask=plan.mask,
        scale=scale,
    )
    return attended.view(grouped.shape).permute(2, 0, 1, 3).reshape(q.shape)
