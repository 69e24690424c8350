"""The paged KV cache: tensors, and the life of a sequence's pages.

1. `match_prefix`   a new sequence takes over the pages of a prefix that is already computed
2. `reserve_tree`   temporary slots behind the committed tokens, for a prompt chunk or a draft tree
3. `write_kv`       the forward fills the slots, layer by layer
4. `commit`         slots become live tokens (a prompt chunk: all; a tree: `kv_rollback` first)
5. `publish`        full blocks of live tokens become findable for step 1 of others
6. `release`        the request ends, is preempted or aborted: the pool takes the pages back

Position i of a sequence is in page block_table[i // page_size] at offset i % page_size; its slot is
page * page_size + offset.
"""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import torch

from kernels.block_allocator import BlockAllocator
from kernels.kv_move import cache_pointers, kv_move

MAX_PAGE_SIZE = 64


class RollbackPolicy(Enum):
    """What becomes of a tree's slots after acceptance; costs are compared in `kv_rollback`."""

    RETURN_PAGES = "return_pages"  # move the path left, give the pages behind it back
    COMPACT_REUSE = "compact_reuse"  # move the path left, keep the pages for the next round
    COUNTER = "counter"  # move nothing, keep the pages: chains only


@dataclass(eq=False)
class SequenceKV:
    """Where one sequence's KV lies. The caller keeps it; only the pool changes it."""

    block_table: list[int] = field(default_factory=list)
    length: int = 0  # live tokens: KV written and committed
    num_reserved: int = 0  # temporary slots at positions length, length + 1, ...
    block_hashes: list[bytes] = field(default_factory=list)  # one for each published full block


@dataclass
class KVCounters:
    """What the policies cost. Bytes are written bytes, K and V of all layers together."""

    moved_bytes: int = 0  # compaction of accepted paths
    copied_bytes: int = 0  # copy-on-write
    pages_returned: int = 0  # by commits; not those of a sequence that ends


class KVPool:
    """K and V of all layers, cut into pages, and the only one to hand pages out or take them back.

    `k[layer]` and `v[layer]` are [num_pages, page_size, num_kv_heads, head_dim]. One tensor a
    layer: writing to slices of one stacked tensor makes torch.compile copy all layers. They start
    as zeros, so that a masked slot holds no NaN that attention would multiply by 0.
    """

    def __init__(
        self,
        num_layers: int,
        num_pages: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int = 16,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        policy: RollbackPolicy = RollbackPolicy.RETURN_PAGES,
    ):
        if not 1 <= page_size <= MAX_PAGE_SIZE:
            raise ValueError(f"page_size is {page_size}: choose 1 to {MAX_PAGE_SIZE}")
        shape = (num_pages, page_size, num_kv_heads, head_dim)
        self.allocator = BlockAllocator(num_pages)
        self.page_size = page_size
        self.policy = policy
        self.k = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(num_layers)]
        self.v = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(num_layers)]
        self.counters = KVCounters()
        self._caches = self.k + self.v
        self._pointers = cache_pointers(self._caches)
        self._device = self._pointers.device

    # Pages of a sequence

    def match_prefix(self, sequence: SequenceKV, token_ids: Sequence[int]) -> int:
        """Give an empty sequence the published pages of its longest known prefix.

        Returns the number of tokens that need no forward any more, a multiple of page_size and
        less than len(token_ids): the last token is always computed, its logits are needed.
        """
        if sequence.block_table:
            raise ValueError(f"match_prefix needs an empty sequence, it has {sequence.length}")
        for key in self._block_hashes(token_ids[: max(len(token_ids) - 1, 0)], []):
            page = self.allocator.lookup(key)
            if page is None:
                break
            self.allocator.share(page)
            sequence.block_table.append(page)
            sequence.block_hashes.append(key)
        sequence.length = len(sequence.block_table) * self.page_size
        return sequence.length

    def pages_needed(self, sequence: SequenceKV, num_nodes: int) -> int:
        """Pages that `reserve_tree(sequence, num_nodes)` will take from the allocator."""
        missing = self._num_blocks(sequence.length + num_nodes) - len(sequence.block_table)
        return max(missing, 0) + self._must_copy_tail(sequence)

    def reserve_tree(self, sequence: SequenceKV, num_nodes: int) -> torch.Tensor:
        """Slots for `num_nodes` tokens behind the live ones -> slot_mapping [num_nodes] int64.

        Node i gets position length + i, whatever its depth in the tree. A prompt chunk is a chain.
        All or nothing: raises OutOfPages with pool and sequence unchanged.
        """
        if sequence.num_reserved:
            raise ValueError(f"{sequence.num_reserved} slots are still reserved: commit first")
        if num_nodes < 1:
            raise ValueError(f"num_nodes is {num_nodes}: reserve at least 1")
        pages = self.allocator.allocate(self.pages_needed(sequence, num_nodes))
        if self._must_copy_tail(sequence):
            self._copy_tail(sequence, pages.pop())
        sequence.block_table += pages
        sequence.num_reserved = num_nodes
        positions = range(sequence.length, sequence.length + num_nodes)
        return self._to_device(self.slots(sequence, positions))

    def commit(self, sequence: SequenceKV, num_tokens: int) -> None:
        """The first `num_tokens` reserved slots become live tokens, the others are given up.

        Must hold: their KV is written, in every layer.
        """
        if not 0 <= num_tokens <= sequence.num_reserved:
            raise ValueError(f"{num_tokens} tokens to commit, {sequence.num_reserved} reserved")
        sequence.length += num_tokens
        sequence.num_reserved = 0
        self._give_back_tail(sequence)

    def truncate(self, sequence: SequenceKV, length: int) -> None:
        """Keep the first `length` live tokens: those behind were a drafter's rejected guesses.

        Published blocks cannot be cut, others may be reading them.
        """
        if sequence.num_reserved:
            raise ValueError(f"{sequence.num_reserved} slots are still reserved: commit first")
        published = len(sequence.block_hashes) * self.page_size
        if not published <= length <= sequence.length:
            raise ValueError(f"truncate to {length}: choose {published} to {sequence.length}")
        sequence.length = length
        self._give_back_tail(sequence)

    def publish(self, sequence: SequenceKV, token_ids: Sequence[int]) -> None:
        """Make full blocks of live tokens findable; token_ids are the sequence's, from the start.

        Reserved slots are never published: a block found by another request must be written.
        """
        if len(token_ids) < sequence.length:
            raise ValueError(f"{len(token_ids)} token ids for {sequence.length} live tokens")
        num_known = len(sequence.block_hashes)
        for key in self._block_hashes(token_ids[: sequence.length], sequence.block_hashes):
            self.allocator.publish(sequence.block_table[num_known], key)
            sequence.block_hashes.append(key)
            num_known += 1

    def fork(self, sequence: SequenceKV) -> SequenceKV:
        """A second sequence with the same live tokens on the same pages, the last one included.

        Whoever first reserves slots in a shared last page gets a copy of it (copy-on-write).
        """
        if sequence.num_reserved:
            raise ValueError(f"fork during verification: {sequence.num_reserved} slots reserved")
        table = sequence.block_table[: self._num_blocks(sequence.length)]
        for page in table:
            self.allocator.share(page)
        return SequenceKV(table, sequence.length, 0, list(sequence.block_hashes))

    def release(self, sequence: SequenceKV) -> None:
        """Take all pages back and empty the sequence; allowed at any time, also while reserved.

        Last page first: a cached block is useless once the one before it is evicted.
        """
        self.allocator.release(reversed(sequence.block_table))
        sequence.block_table.clear()
        sequence.block_hashes.clear()
        sequence.length = sequence.num_reserved = 0

    # Tensors

    def slots(self, sequence: SequenceKV, positions: Iterable[int]) -> list[int]:
        """Slots of logical positions."""
        size, table = self.page_size, sequence.block_table
        return [table[i // size] * size + i % size for i in positions]

    def write_kv(self, layer: int, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """Store k and v [num_tokens, num_kv_heads, head_dim] at slots [num_tokens] int64.

        Must hold: slots come from `reserve_tree` and do not repeat.
        """
        for cache, rows in ((self.k[layer], k), (self.v[layer], v)):
            cache.view(-1, *cache.shape[2:]).index_copy_(0, slots, rows)

    def prepare_block_tables(
        self, sequences: Sequence[SequenceKV]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """block_tables [batch, max_blocks] int32 and context_lens [batch] int32 for attention.

        context_lens counts live tokens; reserved slots follow them in the same table. Short rows
        are filled with page 0, which is readable and must be masked by context_lens.
        """
        width = max(len(s.block_table) for s in sequences)
        rows = [s.block_table + [0] * (width - len(s.block_table)) for s in sequences]
        lens = [s.length for s in sequences]
        return (
            torch.tensor(rows, dtype=torch.int32, device=self._device),
            torch.tensor(lens, dtype=torch.int32, device=self._device),
        )

    def gather_kv(
        self, layer: int, block_tables: torch.Tensor, max_len: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of positions 0..max_len-1 as two [batch, max_len, num_kv_heads, head_dim] copies.

        For attention without a paged kernel. Positions past a row's own end hold other tokens'
        KV or zeros: mask them.
        """
        tables = block_tables[:, : self._num_blocks(max_len)]
        k, v = (
            cache[tables].flatten(1, 2)[:, :max_len] for cache in (self.k[layer], self.v[layer])
        )
        return k, v

    def move(self, groups: Sequence[tuple[list[int], list[int]]]) -> int:
        """Move rows (source slots, target slots), one group a sequence; returns bytes written."""
        sources = [slot for group in groups for slot in group[0]]
        targets = [slot for group in groups for slot in group[1]]
        if not sources:
            return 0
        offsets = [0]
        for group_sources, _ in groups:
            offsets.append(offsets[-1] + len(group_sources))
        indices = (self._to_device(x) for x in (sources, targets, offsets))
        kv_move(self._caches, self._pointers, *indices)
        return len(sources) * self.bytes_per_token

    @property
    def bytes_per_token(self) -> int:
        """K and V of one token in all layers."""
        row = self._caches[0][0, 0]
        return len(self._caches) * row.numel() * row.element_size()

    def _num_blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self.page_size)

    def _to_device(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)

    def _give_back_tail(self, sequence: SequenceKV) -> None:
        """Pages behind the live tokens, where the policy is to return them."""
        if self.policy is RollbackPolicy.RETURN_PAGES:
            keep = self._num_blocks(sequence.length)
            self.allocator.release(sequence.block_table[keep:])
            self.counters.pages_returned += len(sequence.block_table) - keep
            del sequence.block_table[keep:]

    def _must_copy_tail(self, sequence: SequenceKV) -> bool:
        block, offset = divmod(sequence.length, self.page_size)
        return offset > 0 and self.allocator.ref_counts[sequence.block_table[block]] > 1

    def _copy_tail(self, sequence: SequenceKV, new_page: int) -> None:
        start = sequence.length - sequence.length % self.page_size
        sources = self.slots(sequence, range(start, sequence.length))
        self.allocator.release([sequence.block_table[start // self.page_size]])
        sequence.block_table[start // self.page_size] = new_page
        targets = self.slots(sequence, range(start, sequence.length))
        self.counters.copied_bytes += self.move([(sources, targets)])

    def _block_hashes(self, token_ids: Sequence[int], known: Sequence[bytes]) -> Iterable[bytes]:
        """Chained: a block's hash covers all tokens before it, as its KV does."""
        size, parent = self.page_size, known[-1] if known else b""
        for start in range(len(known) * size, len(token_ids) - size + 1, size):
            tokens = array("q", token_ids[start : start + size]).tobytes()
            parent = hashlib.blake2b(parent + tokens, digest_size=16).digest()
            yield parent
