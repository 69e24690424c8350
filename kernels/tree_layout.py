"""How a batch of trees lies in memory, as the attention kernels see it."""

from typing import NamedTuple

import torch
from torch import Tensor

WORD_BITS = 64


class TreeLayout(NamedTuple):
    """Where the batch's rows and their KV lie: made once a forward, the same for every layer.

    block_table   [batch, max_pages] int32
    context_lens  [batch] int32, committed tokens; node i of a request lies at position
                  context_lens[b] + i of its block table
    qo_indptr     [batch + 1] int32, request b owns rows qo_indptr[b] to qo_indptr[b + 1]
    mask_bits     [total_tokens, num_words] int64, bit b of word w: node 64 * w + b is seen
    max_query_len at least the nodes of the largest request
    num_splits    parts of the KV axis, a power of two; None lets `choose_num_splits` decide

    A graph key must hold every shape here, max_query_len, num_splits and the rows of q.
    """

    block_table: Tensor
    context_lens: Tensor
    qo_indptr: Tensor
    mask_bits: Tensor
    max_query_len: int
    num_splits: int | None = None

    def check(self, num_rows: int) -> None:
        """AssertionError unless shapes and dtypes fit together and `num_rows` rows of queries."""
        batch, splits = self.context_lens.shape[0], self.num_splits or 1
        assert self.block_table.dim() == 2 and self.block_table.shape[0] == batch, (
            "block_table rows"
        )
        assert self.qo_indptr.shape == (batch + 1,), f"qo_indptr {tuple(self.qo_indptr.shape)}"
        assert self.mask_bits.dim() == 2 and self.mask_bits.shape[0] == num_rows, "mask_bits rows"
        assert self.mask_bits.dtype == torch.int64, f"mask_bits is {self.mask_bits.dtype}"
        assert self.mask_bits.shape[1] * WORD_BITS >= self.max_query_len, "too few mask words"
        assert splits & (splits - 1) == 0, f"num_splits is {splits}, not a power of two"
        for tensor in self[:3]:
            assert tensor.dtype == torch.int32, f"the layout's integers: int32, not {tensor.dtype}"


def unpack_bits(words: Tensor, num_nodes: int) -> Tensor:
    """Mask bits [rows, num_words] int64 -> visibility [rows, num_nodes] bool."""
    bits = words[:, :, None] >> torch.arange(WORD_BITS, device=words.device) & 1
    return bits.flatten(1)[:, :num_nodes].bool()
