"""Move KV rows between slots, in every layer at once: what compaction and copy-on-write need.

Why overlap is safe. After a verification the accepted nodes path[0] < path[1] < ... sit at tree
offsets path[j] >= j and must end at offsets 0, 1, ...: every move goes left (or stays). Target j
may well be the source of an earlier move i < j (path[i] = j), so writing j before reading i
destroys a row. It is never the source of a later move k > j, because path[k] >= k > j. Hence:
taking the moves in order is safe, in any other order is not, and a group of moves may be
done at once if all its sources are read before its first target is written.
"""

from collections.abc import Sequence

import torch

from kernels.runtime import uses_triton

try:
    import triton
    import triton.language as tl
except ImportError:  # there are no wheels outside Linux; torch does the moves there
    triton = None

BLOCK_MOVES = 16
MAX_BLOCK_COLUMNS = 128


def kv_move_ref(
    caches: Sequence[torch.Tensor], source_slots: torch.Tensor, target_slots: torch.Tensor
) -> None:
    """caches[c][target_slots[i]] = caches[c][source_slots[i]] as if all were done at one instant.

    Arguments as for `kv_move`. The indexing on the right makes a copy, so nothing is written
    before everything is read.
    """
    for cache in caches:
        rows = cache.view(-1, *cache.shape[2:])
        rows[target_slots] = rows[source_slots]


if triton is not None:
    # A move copies bits: the kernel sees words of the right width, never the number format.
    WORD_TYPES = {1: tl.int8, 2: tl.int16, 4: tl.int32, 8: tl.int64}

    @triton.jit
    def kv_move_kernel(  # type: ignore[no-untyped-def]
        cache_pointers,  # [num_caches] int64, address of each cache
        source_slots,  # [num_moves] int64
        target_slots,  # [num_moves] int64
        move_offsets,  # [num_groups + 1] int64, group g owns moves [offsets[g], offsets[g + 1])
        num_columns,  # words of one row = num_kv_heads * head_dim
        WORD: tl.constexpr,
        BLOCK_MOVES: tl.constexpr,
        BLOCK_COLUMNS: tl.constexpr,
    ):
        """One program: one cache, one group, one strip of columns; programs share no word."""
        cache = tl.load(cache_pointers + tl.program_id(0)).to(tl.pointer_type(WORD))
        first = tl.load(move_offsets + tl.program_id(1))
        last = tl.load(move_offsets + tl.program_id(1) + 1)
        columns = tl.program_id(2) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
        for start in range(first, last, BLOCK_MOVES):
            moves = start + tl.arange(0, BLOCK_MOVES)
            sources = tl.load(source_slots + moves, mask=moves < last, other=0)
            targets = tl.load(target_slots + moves, mask=moves < last, other=0)
            mask = (moves < last)[:, None] & (columns < num_columns)[None, :]
            rows = tl.load(cache + sources[:, None] * num_columns + columns[None, :], mask=mask)
            # Threads that read a row need not be those that overwrite it: all must have read first.
            # Later blocks of moves need no more than this, since none reads what this one writes.
            tl.debug_barrier()
            tl.store(cache + targets[:, None] * num_columns + columns[None, :], rows, mask=mask)


def cache_pointers(caches: Sequence[torch.Tensor]) -> torch.Tensor:
    """Addresses of the caches, [num_caches] int64 on their device: one launch serves all layers.

    Valid as long as the caches keep their storage. The owner of the caches makes it once.
    """
    return torch.tensor([c.data_ptr() for c in caches], dtype=torch.int64, device=caches[0].device)


def kv_move(
    caches: Sequence[torch.Tensor],
    pointers: torch.Tensor,
    source_slots: torch.Tensor,
    target_slots: torch.Tensor,
    move_offsets: torch.Tensor,
) -> None:
    """Copy row source_slots[i] to row target_slots[i] of every cache, in place.

    caches        list of [num_pages, page_size, num_kv_heads, head_dim], equal in shape and dtype
    pointers      [num_caches] int64, from `cache_pointers`
    source_slots, target_slots  [num_moves] int64, slot = page * page_size + offset in the page
    move_offsets  [num_groups + 1] int64 from 0 to num_moves: one group a sequence

    Must hold (not checked, it would wait for the device): within a group no move reads what an
    earlier one wrote and no target occurs twice; no group touches a slot that another one writes.
    Raises AssertionError on wrong shapes, dtypes or devices.
    """
    _check_arguments(caches, pointers, source_slots, target_slots, move_offsets)
    if source_slots.numel() == 0:
        return
    if not uses_triton(caches[0]):
        kv_move_ref(caches, source_slots, target_slots)
        return
    num_columns = caches[0].shape[2] * caches[0].shape[3]
    block_columns = min(triton.next_power_of_2(num_columns), MAX_BLOCK_COLUMNS)
    grid = (len(caches), move_offsets.numel() - 1, triton.cdiv(num_columns, block_columns))
    kv_move_kernel[grid](
        pointers,
        source_slots,
        target_slots,
        move_offsets,
        num_columns,
        WORD=WORD_TYPES[caches[0].element_size()],
        BLOCK_MOVES=BLOCK_MOVES,
        BLOCK_COLUMNS=block_columns,
    )


def _check_arguments(
    caches: Sequence[torch.Tensor], pointers: torch.Tensor, *indices: torch.Tensor
) -> None:
    source_slots, target_slots, move_offsets = indices
    shape, dtype, device = caches[0].shape, caches[0].dtype, caches[0].device
    assert len(shape) == 4, f"a cache is [pages, page_size, heads, head_dim], got {tuple(shape)}"
    for cache in caches:
        assert cache.shape == shape and cache.dtype == dtype, "caches differ in shape or dtype"
        assert cache.is_contiguous() and cache.device == device, "caches: contiguous, one device"
    for tensor in (pointers, *indices):
        assert tensor.dtype == torch.int64, f"pointers and slots are int64, got {tensor.dtype}"
        assert tensor.dim() == 1 and tensor.device == device, "pointers and slots: 1-D, same device"
    assert pointers.numel() == len(caches), f"{pointers.numel()} pointers, {len(caches)} caches"
    assert source_slots.shape == target_slots.shape, "as many sources as targets"
    assert move_offsets.numel() >= 2, "move_offsets needs a start and an end"
