"""Tree attention where there is no card: torch's fused attention on requests of equal shape.

What depends on the batch alone (whose rows, where their KV lies, who sees whom) is worked out once
a forward, so that a layer pays for views and the attention itself. At one token a step that is
the difference between one per cent of the forward and ten.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from kernels.tree_layout import TreeLayout, unpack_bits

MAX_STRETCH = 2  # in a group no KV is padded to more than this many times its length


class GroupPlan(NamedTuple):
    """Requests that attend in one call, ready for any layer.

    rows   their rows of q, one request after the other: a slice, or numbers [batch * num_nodes]
    slots  where their KV lies [batch * kv_len] int64; a shorter one is padded with slots that
           `mask` hides
    batch  how many they are
    mask   additive [batch, 1, group * num_nodes, kv_len] in the dtype of q; None: all is visible
    """

    rows: slice | Tensor
    slots: Tensor
    batch: int
    mask: Tensor | None


class _Request(NamedTuple):
    number: int
    first_row: int
    num_nodes: int
    kv_len: int


def plan_tree_attention(
    layout: TreeLayout, page_size: int, group: int, dtype: torch.dtype
) -> list[GroupPlan]:
    """The plan of a batch; `group` query heads share a KV head. Requests without rows are left out.

    Requests of equal shape are copied side by side and attend together: all cores work on one
    call. A request on pages that follow one another could be read where it lies, but is copied too:
    the attention reads a part of each row at a time, head after head, which from memory takes
    longer than to stream the rows into the cache first (at one token and 256 to 3000 tokens of
    context, 10 to 30 per cent). Raises AssertionError where the layout does not fit together.
    """
    layout.check(layout.mask_bits.shape[0])
    waiting = _requests(layout)
    plans = []
    while waiting:
        shortest = min(waiting, key=lambda r: r.kv_len)
        members = [
            r
            for r in waiting
            if r.num_nodes == shortest.num_nodes and r.kv_len <= MAX_STRETCH * shortest.kv_len
        ]
        plans.append(_plan_group(members, layout, page_size, group, dtype))
        waiting = [r for r in waiting if r not in members]
    return plans


def _requests(layout: TreeLayout) -> list[_Request]:
    bounds = layout.qo_indptr.tolist()
    requests = []
    for index, context_len in enumerate(layout.context_lens.tolist()):
        num_nodes = bounds[index + 1] - bounds[index]
        if num_nodes:
            requests.append(_Request(index, bounds[index], num_nodes, context_len + num_nodes))
    return requests


def _plan_group(
    members: list[_Request], layout: TreeLayout, page_size: int, group: int, dtype: torch.dtype
) -> GroupPlan:
    longest, num_nodes = max(r.kv_len for r in members), members[0].num_nodes
    table = layout.block_table[[r.number for r in members], : -(-longest // page_size)]
    offsets = torch.arange(page_size, device=table.device)
    slots = (table[:, :, None] * page_size + offsets).flatten(1)[:, :longest]
    lens = torch.tensor([r.kv_len for r in members], device=table.device)[:, None]
    # Padding reads a slot of the request's own: others may hold NaN, which no mask can hide.
    slots = torch.where(torch.arange(longest, device=table.device) < lens, slots, slots[:, :1])
    rows = [row for r in members for row in range(r.first_row, r.first_row + num_nodes)]
    is_block = rows[-1] - rows[0] + 1 == len(rows)
    mask = None
    if num_nodes > 1 or any(r.kv_len < longest for r in members):
        parts = [
            _additive_mask(
                layout.mask_bits[r.first_row : r.first_row + num_nodes],
                r.kv_len,
                longest,
                group,
                dtype,
            )
            for r in members
        ]
        mask = torch.stack(parts)[:, None]
    return GroupPlan(
        slice(rows[0], rows[-1] + 1) if is_block else torch.tensor(rows, device=table.device),
        slots.flatten(),
        len(members),
        mask,
    )


def _additive_mask(
    mask_bits: Tensor, kv_len: int, width: int, group: int, dtype: torch.dtype
) -> Tensor:
    """[group * num_nodes, width] of one request: prefix and ancestors visible, padding hidden."""
    num_nodes = mask_bits.shape[0]
    hidden = ~unpack_bits(mask_bits, num_nodes)
    mask = torch.zeros(num_nodes, width, dtype=dtype, device=hidden.device)
    mask[:, kv_len - num_nodes : kv_len].masked_fill_(hidden, -torch.inf)
    mask[:, kv_len:] = -torch.inf
    return mask.repeat(group, 1)


def tree_attention_torch(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, plan: list[GroupPlan], scale: float
) -> Tensor:
    """Arguments as for `tree_attention`, the layout in the form of its plan.

    The query heads of a KV head are laid out as more rows of it, so no key is copied twice.
    """
    keys, values = k_cache.flatten(0, 1), v_cache.flatten(0, 1)
    if len(plan) == 1 and plan[0].rows == slice(0, q.shape[0]):
        return _attend(q, keys, values, plan[0], scale)
    out = torch.zeros_like(q)
    for part in plan:
        attended = _attend(_take(q, part.rows), keys, values, part, scale)
        if isinstance(part.rows, slice):
            out[part.rows] = attended
        else:
            out.index_copy_(0, part.rows, attended)
    return out


def _take(rows: Tensor, chosen: slice | Tensor) -> Tensor:
    """A view for a slice, else a copy (index_select is far faster than indexing here)."""
    return rows[chosen] if isinstance(chosen, slice) else rows.index_select(0, chosen)


def _attend(q: Tensor, keys: Tensor, values: Tensor, plan: GroupPlan, scale: float) -> Tensor:
    """q [batch * num_nodes, heads, head_dim]; keys, values [slots, kv_heads, head_dim]."""
    kv_heads, head_dim = keys.shape[1:]
    grouped = q.view(plan.batch, -1, kv_heads, q.shape[1] // kv_heads, head_dim)
    grouped = grouped.permute(0, 2, 3, 1, 4)  # [batch, kv_heads, group, num_nodes, head_dim]
    own_keys, own_values = (
        cache.index_select(0, plan.slots).view(plan.batch, -1, kv_heads, head_dim).transpose(1, 2)
        for cache in (keys, values)
    )
    attended = functional.scaled_dot_product_attention(
        grouped.flatten(2, 3), own_keys, own_values, attn_mask=plan.mask, scale=scale
    )
    return attended.view(grouped.shape).permute(0, 3, 1, 2, 4).reshape(q.shape)
