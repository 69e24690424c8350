"""Attention of draft trees over a paged KV cache: all nodes of all requests in one launch.

Query row i of a request is node i of its tree (row 0 the root). It sees the whole committed prefix
and those nodes whose bit is set in its mask: its ancestors and itself. A causal prompt chunk is the
chain, so prefill, decode (one node) and verification are the same operation.

Long contexts are split over the KV axis; each part leaves its softmax sum, and a second kernel
combines the parts. The tree's own tiles are skipped where no row sees any of their nodes.
"""

import torch
from torch import Tensor

from kernels.runtime import IS_INTERPRETED, uses_triton
from kernels.tree_attention_torch import GroupPlan, plan_tree_attention, tree_attention_torch
from kernels.tree_layout import TreeLayout, unpack_bits

try:
    import triton
    import triton.language as tl
except ImportError:  # there are no wheels outside Linux; torch does the attention there
    triton = None

LOG2_E = 1.4426950408889634
MIN_BLOCK = 16  # what tl.dot wants at least
MAX_SPLITS, MIN_SPLIT_TOKENS = 32, 256


def tree_attention_ref(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, layout: TreeLayout, scale: float
) -> Tensor:
    """One request after the other, whole softmax, in float32 (float64 for float64 input).

    Arguments as for `tree_attention`.
    """
    out = torch.zeros_like(q)
    page_size, group = k_cache.shape[1], q.shape[1] // k_cache.shape[2]
    wide = torch.promote_types(q.dtype, torch.float32)
    bounds = layout.qo_indptr.tolist()
    for request, context_len in enumerate(layout.context_lens.tolist()):
        rows = slice(bounds[request], bounds[request + 1])
        num_nodes = rows.stop - rows.start
        positions = torch.arange(context_len + num_nodes, device=q.device)
        pages = layout.block_table[request, positions // page_size].long()
        keys, values = (
            cache[pages, positions % page_size].to(wide).repeat_interleave(group, dim=1)
            for cache in (k_cache, v_cache)
        )
        scores = torch.einsum("qhd,khd->hqk", q[rows].to(wide), keys) * scale
        prefix = torch.ones(num_nodes, context_len, dtype=torch.bool, device=q.device)
        visible = torch.cat([prefix, unpack_bits(layout.mask_bits[rows], num_nodes)], dim=1)
        weights = scores.masked_fill(~visible, -torch.inf).softmax(-1).nan_to_num(0.0)
        out[rows] = torch.einsum("hqk,khd->qhd", weights, values).to(q.dtype)
    return out


if triton is not None:

    @triton.jit
    def attend_range(  # type: ignore[no-untyped-def]
        q,  # [BLOCK_M, BLOCK_D]
        state,  # sum of weight * value, largest score, sum of weights; float32, scores in base 2
        begin, end, context_len,  # positions in the sequence
        is_row,  # [BLOCK_M] bool
        row_bits,  # [BLOCK_M] pointers to each row's mask words
        k_cache, v_cache, pages, kv_head, num_kv_heads, scale_log2,
        HEAD_DIM: tl.constexpr, PAGE_SIZE: tl.constexpr,
        BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
        IS_TREE: tl.constexpr, UPCAST: tl.constexpr,
    ):  # fmt: skip
        """Online softmax over the positions from begin to end: all prefix, or all tree."""
        acc, row_max, row_sum = state
        dims = tl.arange(0, BLOCK_D)
        for start in range(begin, end, BLOCK_N):
            positions = start + tl.arange(0, BLOCK_N)
            is_read = positions < end
            visible = is_row[:, None] & is_read[None, :]
            is_seen = True
            if IS_TREE:
                node = positions - context_len
                words = tl.load(row_bits[:, None] + (node // 64)[None, :], mask=visible, other=0)
                visible = visible & ((words >> (node % 64)[None, :].to(tl.int64) & 1) != 0)
                is_seen = tl.max(tl.max(visible.to(tl.int32), axis=1), axis=0) > 0
            if is_seen:
                page = tl.load(pages + positions // PAGE_SIZE, mask=is_read, other=0).to(tl.int64)
                slots = page * PAGE_SIZE + positions % PAGE_SIZE
                offsets = ((slots * num_kv_heads + kv_head) * HEAD_DIM)[:, None] + dims[None, :]
                mask = is_read[:, None] & (dims < HEAD_DIM)[None, :]
                k = tl.load(k_cache + offsets, mask=mask, other=0.0)
                v = tl.load(v_cache + offsets, mask=mask, other=0.0)
                if UPCAST:
                    k = k.to(tl.float32)
                    v = v.to(tl.float32)
                scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale_log2
                scores = tl.where(visible, scores, float("-inf"))
                new_max = tl.maximum(row_max, tl.max(scores, axis=1))
                # A row that has seen nothing yet would compute inf - inf.
                shift = tl.where(new_max == float("-inf"), 0.0, new_max)
                weights = tl.exp2(scores - shift[:, None])
                rescale = tl.exp2(row_max - shift)
                row_sum = row_sum * rescale + tl.sum(weights, axis=1)
                acc = acc * rescale[:, None]
                acc += tl.dot(weights.to(v.dtype), v, input_precision="ieee")
                row_max = new_max
        return acc, row_max, row_sum

    @triton.jit
    def split_range(kv_len, BLOCK_N: tl.constexpr, NUM_SPLITS: tl.constexpr):  # type: ignore[no-untyped-def]
        """Positions of this program's part of the KV axis: whole tiles, none for the last parts."""
        tokens = tl.cdiv(tl.cdiv(kv_len, BLOCK_N), NUM_SPLITS) * BLOCK_N
        begin = tl.program_id(2) * tokens
        return begin, tl.minimum(begin + tokens, kv_len)

    @triton.jit
    def tree_attention_kernel(  # type: ignore[no-untyped-def]
        q, k_cache, v_cache,
        out,  # [total_tokens, num_heads, HEAD_DIM], written where NUM_SPLITS is 1, else:
        part_out,  # [NUM_SPLITS, total_tokens, num_heads, HEAD_DIM] float32
        part_lse,  # [NUM_SPLITS, total_tokens, num_heads] float32, base 2
        block_table, context_lens, qo_indptr, mask_bits,
        total_tokens, num_kv_heads, max_pages, num_words, scale_log2,
        GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, PAGE_SIZE: tl.constexpr,
        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
        NUM_SPLITS: tl.constexpr, UPCAST: tl.constexpr,
    ):  # fmt: skip
        """One program: one request and KV head, one tile of rows (nodes_per_tile nodes with the
        GROUP query heads that share the KV head), one part of the KV axis."""
        request, kv_head = tl.program_id(0) // num_kv_heads, tl.program_id(0) % num_kv_heads
        first = tl.load(qo_indptr + request)
        num_nodes = tl.load(qo_indptr + request + 1) - first
        nodes_per_tile: tl.constexpr = BLOCK_M // GROUP
        if tl.program_id(1) * nodes_per_tile >= num_nodes:
            return

        rows, dims = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
        node = tl.program_id(1) * nodes_per_tile + rows // GROUP
        is_row = (rows < nodes_per_tile * GROUP) & (node < num_nodes)
        token = (first + node).to(tl.int64)
        row = token * num_kv_heads * GROUP + kv_head * GROUP + rows % GROUP
        q_offsets = row[:, None] * HEAD_DIM + dims[None, :]
        q_mask = is_row[:, None] & (dims < HEAD_DIM)[None, :]
        q_tile = tl.load(q + q_offsets, mask=q_mask, other=0.0)
        if UPCAST:
            q_tile = q_tile.to(tl.float32)
        context_len = tl.load(context_lens + request)
        begin, end = split_range(context_len + num_nodes, BLOCK_N, NUM_SPLITS)
        pages = block_table + request.to(tl.int64) * max_pages
        row_bits = mask_bits + token * num_words
        state = (
            tl.zeros((BLOCK_M, BLOCK_D), tl.float32),
            tl.full((BLOCK_M,), float("-inf"), tl.float32),
            tl.zeros((BLOCK_M,), tl.float32),
        )
        state = attend_range(
            q_tile, state, begin, tl.minimum(end, context_len), context_len, is_row, row_bits,
            k_cache, v_cache, pages, kv_head, num_kv_heads, scale_log2,
            HEAD_DIM, PAGE_SIZE, BLOCK_N, BLOCK_D, False, UPCAST,
        )  # fmt: skip
        acc, row_max, row_sum = attend_range(
            q_tile, state, tl.maximum(begin, context_len), end, context_len, is_row, row_bits,
            k_cache, v_cache, pages, kv_head, num_kv_heads, scale_log2,
            HEAD_DIM, PAGE_SIZE, BLOCK_N, BLOCK_D, True, UPCAST,
        )  # fmt: skip

        # A row that sees nothing is zero, as in the reference.
        acc = acc / tl.where(row_sum > 0, row_sum, 1.0)[:, None]
        if NUM_SPLITS == 1:
            tl.store(out + q_offsets, acc.to(out.dtype.element_ty), mask=q_mask)
        else:
            part = tl.program_id(2).to(tl.int64) * total_tokens * num_kv_heads * GROUP
            lse = row_max + tl.log2(tl.where(row_sum > 0, row_sum, 1.0))
            tl.store(part_lse + part + row, lse, mask=is_row)
            tl.store(part_out + part * HEAD_DIM + q_offsets, acc, mask=q_mask)

    @triton.jit
    def combine_splits_kernel(  # type: ignore[no-untyped-def]
        out, part_out, part_lse, qo_indptr, batch,
        num_rows,  # total_tokens * num_heads
        num_heads,
        HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, NUM_SPLITS: tl.constexpr,
    ):  # fmt: skip
        """One program: one head of one token; parts weighted by their share of the softmax sum."""
        row = tl.program_id(0).to(tl.int64)
        if row >= tl.load(qo_indptr + batch).to(tl.int64) * num_heads:
            return
        splits = tl.arange(0, NUM_SPLITS)
        dims = tl.arange(0, BLOCK_D)
        lse = tl.load(part_lse + splits * num_rows + row)
        largest = tl.max(lse, axis=0)
        weights = tl.exp2(lse - tl.where(largest == float("-inf"), 0.0, largest))
        total = tl.sum(weights, axis=0)
        offsets = (splits * num_rows + row)[:, None] * HEAD_DIM + dims[None, :]
        parts = tl.load(part_out + offsets, mask=(dims < HEAD_DIM)[None, :], other=0.0)
        mean = tl.sum(parts * weights[:, None], axis=0) / tl.where(total > 0, total, 1.0)
        tl.store(out + row * HEAD_DIM + dims, mean.to(out.dtype.element_ty), mask=dims < HEAD_DIM)


def choose_num_splits(num_programs: int, max_context: int, num_processors: int) -> int:
    """Parts of the KV axis, a power of two: enough programs for the card, none too short to pay.

    Depends on shapes alone, so a captured graph chooses what it chose at capture.
    """
    wanted = min(2 * num_processors // num_programs, max_context // MIN_SPLIT_TOKENS, MAX_SPLITS)
    return 1 << max(wanted, 1).bit_length() - 1


def plan_for(
    q_dtype: torch.dtype, k_cache: Tensor, layout: TreeLayout, group: int
) -> list[GroupPlan] | None:
    """What `tree_attention` can work out once a forward instead of once a layer; None on a card.

    group: query heads that share a KV head. The plan is good for this layout and cache shape only.
    """
    if uses_triton(k_cache):
        return None
    return plan_tree_attention(layout, k_cache.shape[1], group, q_dtype)


def tree_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    layout: TreeLayout,
    scale: float,
    plan: list[GroupPlan] | None = None,
) -> Tensor:
    """Attention of every node over its prefix and ancestors -> [total_tokens, heads, head_dim].

    q [total_tokens, num_heads, head_dim] float32, float16 or bfloat16; k_cache and v_cache
    [num_pages, page_size, num_kv_heads, head_dim] of the same dtype, with the tree's own KV in it.
    Rows behind qo_indptr[-1] are padding and come back as zeros. `plan` is that of `plan_for`,
    which has checked the layout; without one it is made here.
    Raises AssertionError on wrong shapes, dtypes or devices.
    """
    if plan is not None:
        return tree_attention_torch(q, k_cache, v_cache, plan, scale)
    _check_arguments(q, k_cache, v_cache, layout)
    plan = plan_for(q.dtype, k_cache, layout, q.shape[1] // k_cache.shape[2])
    if plan is not None:
        return tree_attention_torch(q, k_cache, v_cache, plan, scale)
    (batch, max_pages), (total_tokens, num_heads, head_dim) = layout.block_table.shape, q.shape
    page_size, num_kv_heads = k_cache.shape[1:3]
    group = num_heads // num_kv_heads
    block_n = 64 if q.element_size() == 2 else 32  # float32 has no matrix units to fill
    rows = triton.next_power_of_2(layout.max_query_len * group)
    block_m = max(MIN_BLOCK, triton.next_power_of_2(group), min(rows, block_n))
    block_d = max(MIN_BLOCK, triton.next_power_of_2(head_dim))
    tiles = triton.cdiv(layout.max_query_len, block_m // group)
    processors = (
        torch.cuda.get_device_properties(q.device).multi_processor_count if q.is_cuda else 1
    )
    num_splits = layout.num_splits or choose_num_splits(
        batch * num_kv_heads * tiles, max_pages * page_size, processors
    )
    out = torch.zeros_like(q)
    part_rows = num_splits * total_tokens * num_heads if num_splits > 1 else 0
    part_out = q.new_empty(part_rows, head_dim, dtype=torch.float32)
    part_lse = q.new_empty(part_rows, dtype=torch.float32)
    tree_attention_kernel[(batch * num_kv_heads, tiles, num_splits)](
        q, k_cache, v_cache, out, part_out, part_lse, *layout[:4],
        total_tokens, num_kv_heads, max_pages, layout.mask_bits.shape[1], scale * LOG2_E,
        group, head_dim, page_size, block_m, block_n, block_d, num_splits, IS_INTERPRETED,
    )  # fmt: skip
    if num_splits > 1:
        combine_splits_kernel[(total_tokens * num_heads,)](
            out, part_out, part_lse, layout.qo_indptr, batch,
            total_tokens * num_heads, num_heads, head_dim, block_d, num_splits,
        )  # fmt: skip
    return out


def _check_arguments(q: Tensor, k_cache: Tensor, v_cache: Tensor, layout: TreeLayout) -> None:
    assert q.dim() == 3 and k_cache.dim() == 4, f"q {tuple(q.shape)}, cache {tuple(k_cache.shape)}"
    assert k_cache.shape == v_cache.shape, "k_cache and v_cache differ in shape"
    heads, kv_heads = q.shape[1], k_cache.shape[2]
    assert q.shape[2] == k_cache.shape[3], f"head_dim {q.shape[2]} and {k_cache.shape[3]}"
    assert heads % kv_heads == 0, f"{heads} heads do not divide into {kv_heads} KV heads"
    assert q.dtype == k_cache.dtype == v_cache.dtype, "q and the caches differ in dtype"
    layout.check(q.shape[0])
    for tensor in (q, k_cache, v_cache, *layout[:4]):
        assert tensor.device == q.device and tensor.is_contiguous(), "one device, contiguous"
