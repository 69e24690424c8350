"""The draft head: the k likeliest next tokens of a reduced vocabulary, as target ids.

The logits are never written to memory: each block of the vocabulary keeps its own k best and its
own sum of exponentials, and a second kernel merges the blocks. The head's weight is read once, and
reading it is nearly all the time this takes.
"""

import torch
from torch import Tensor

from kernels.linear import linear
from kernels.runtime import IS_INTERPRETED, uses_triton

try:
    import triton
    import triton.language as tl
except ImportError:  # there are no wheels outside Linux; torch does the head there
    triton = None

BLOCK_VOCAB, BLOCK_HIDDEN = 64, 64
MIN_ROWS, MAX_ROWS = 16, 64  # tl.dot wants 16 rows at least
MAX_K = 16  # candidates of all blocks must fit one program of the merge


def draft_topk_ref(hidden: Tensor, weight: Tensor, d2t: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """All logits at once, in float32 (float64 for float64 input). Arguments as for the op."""
    wide = torch.promote_types(hidden.dtype, torch.float32)
    logits = hidden.to(wide) @ weight.to(wide).T
    log_probs, draft_ids = logits.log_softmax(-1).topk(k, dim=-1)
    return log_probs, draft_ids + d2t[draft_ids]


def draft_topk_torch(hidden: Tensor, weight: Tensor, d2t: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """What runs without a card: logits in the dtype of the weight, which may be packed."""
    logits = linear(hidden, weight).float()
    best, draft_ids = logits.topk(k, dim=-1)
    return best - logits.logsumexp(-1, keepdim=True), draft_ids + d2t[draft_ids]


if triton is not None:

    @triton.jit
    def block_topk_kernel(  # type: ignore[no-untyped-def]
        hidden, weight,
        best_logits, best_ids,  # [num_rows, num_blocks, K] float32, int32
        block_lse,  # [num_rows, num_blocks] float32
        num_rows, draft_vocab, hidden_size,
        K: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_H: tl.constexpr,
        UPCAST: tl.constexpr,
    ):  # fmt: skip
        """One program: a block of the vocabulary for a tile of rows."""
        block, num_blocks = tl.program_id(0), tl.num_programs(0)
        rows = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
        ids = block * BLOCK_V + tl.arange(0, BLOCK_V)
        is_row, is_id = rows < num_rows, ids < draft_vocab
        logits = tl.zeros((BLOCK_R, BLOCK_V), dtype=tl.float32)
        for start in range(0, hidden_size, BLOCK_H):
            columns = start + tl.arange(0, BLOCK_H)
            is_column = columns < hidden_size
            x_offsets = rows.to(tl.int64)[:, None] * hidden_size + columns[None, :]
            w_offsets = ids.to(tl.int64)[:, None] * hidden_size + columns[None, :]
            x = tl.load(hidden + x_offsets, mask=is_row[:, None] & is_column[None, :], other=0.0)
            w = tl.load(weight + w_offsets, mask=is_id[:, None] & is_column[None, :], other=0.0)
            if UPCAST:
                x = x.to(tl.float32)
                w = w.to(tl.float32)
            logits += tl.dot(x, tl.trans(w), input_precision="ieee")
        logits = tl.where(is_id[None, :], logits, float("-inf"))
        largest = tl.max(logits, axis=1)
        lse = largest + tl.log(tl.sum(tl.exp(logits - largest[:, None]), axis=1))
        tl.store(block_lse + rows * num_blocks + block, lse, mask=is_row)
        out = (rows.to(tl.int64) * num_blocks + block) * K
        for i in range(K):
            best = tl.argmax(logits, axis=1)
            tl.store(best_logits + out + i, tl.max(logits, axis=1), mask=is_row)
            tl.store(best_ids + out + i, block * BLOCK_V + best, mask=is_row)
            taken = tl.arange(0, BLOCK_V)[None, :] == best[:, None]
            logits = tl.where(taken, float("-inf"), logits)

    @triton.jit
    def merge_topk_kernel(  # type: ignore[no-untyped-def]
        best_logits, best_ids, block_lse, d2t,
        log_probs, target_ids,  # [num_rows, K] float32, int64
        num_blocks,
        K: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """One program: one row. BLOCK_B >= num_blocks, BLOCK_C >= num_blocks * K."""
        row = tl.program_id(0).to(tl.int64)
        blocks = tl.arange(0, BLOCK_B)
        lse = tl.load(
            block_lse + row * num_blocks + blocks, mask=blocks < num_blocks, other=float("-inf")
        )
        largest = tl.max(lse, axis=0)
        total = largest + tl.log(tl.sum(tl.exp(lse - largest), axis=0))
        slots = tl.arange(0, BLOCK_C)
        candidates = row * num_blocks * K + slots
        is_slot = slots < num_blocks * K
        logits = tl.load(best_logits + candidates, mask=is_slot, other=float("-inf"))
        for i in range(K):
            best = tl.argmax(logits, axis=0)
            draft_id = tl.load(best_ids + row * num_blocks * K + best)
            tl.store(log_probs + row * K + i, tl.max(logits, axis=0) - total)
            tl.store(target_ids + row * K + i, draft_id + tl.load(d2t + draft_id))
            logits = tl.where(slots == best, float("-inf"), logits)


def draft_topk(hidden: Tensor, weight: Tensor, d2t: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(log_probs [rows, k] float32, target_ids [rows, k] int64), likeliest first.

    hidden [rows, hidden_size], weight [draft_vocab, hidden_size] of the same dtype; d2t
    [draft_vocab] int64, target id = draft id + d2t[draft id]. Log-probs are over the draft
    vocabulary, of logits that the kernel keeps in float32 and torch rounds to the weight's dtype.
    Equal logits come in any order. Raises AssertionError on wrong shapes, dtypes or devices.
    """
    _check_arguments(hidden, weight, d2t, k)
    if not uses_triton(hidden):
        return draft_topk_torch(hidden, weight, d2t, k)
    (num_rows, hidden_size), draft_vocab = hidden.shape, weight.shape[0]
    num_blocks = triton.cdiv(draft_vocab, BLOCK_VOCAB)
    block_rows = min(max(MIN_ROWS, triton.next_power_of_2(num_rows)), MAX_ROWS)
    best_logits = hidden.new_empty(num_rows, num_blocks, k, dtype=torch.float32)
    best_ids = torch.empty_like(best_logits, dtype=torch.int32)
    block_lse = hidden.new_empty(num_rows, num_blocks, dtype=torch.float32)
    block_topk_kernel[(num_blocks, triton.cdiv(num_rows, block_rows))](
        hidden, weight, best_logits, best_ids, block_lse, num_rows, draft_vocab, hidden_size,
        k, block_rows, BLOCK_VOCAB, BLOCK_HIDDEN, IS_INTERPRETED,
    )  # fmt: skip
    log_probs = hidden.new_empty(num_rows, k, dtype=torch.float32)
    target_ids = torch.empty_like(log_probs, dtype=torch.int64)
    merge_topk_kernel[(num_rows,)](
        best_logits, best_ids, block_lse, d2t, log_probs, target_ids, num_blocks,
        k, triton.next_power_of_2(num_blocks), triton.next_power_of_2(num_blocks * k),
    )  # fmt: skip
    return log_probs, target_ids


def _check_arguments(hidden: Tensor, weight: Tensor, d2t: Tensor, k: int) -> None:
    assert hidden.dim() == 2 and weight.dim() == 2, "hidden and weight are matrices"
    assert hidden.shape[1] == weight.shape[1], f"hidden {hidden.shape[1]}, weight {weight.shape[1]}"
    assert hidden.dtype == weight.dtype, f"hidden is {hidden.dtype}, weight {weight.dtype}"
    assert d2t.shape == weight.shape[:1] and d2t.dtype == torch.int64, "d2t: [draft_vocab] int64"
    assert 1 <= k <= min(MAX_K, weight.shape[0]), f"k is {k}: 1 to {MAX_K} and the draft vocabulary"
    for tensor in (hidden, weight, d2t):
        assert tensor.device == hidden.device and tensor.is_contiguous(), "one device, contiguous"
