"""Lab 8B: the model attends with a student's inner lines, tile by tile and block by block.

Scores, blocks and the layout of the mask are the engine's own; as in the kernel, a tile holds the
rows of one request and KV head, and the softmax state is all that goes from block to block. It is
slow, and meant for small trees: one call of the student's function for each block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from kernels.kv_pool import KVPool
from kernels.runtime import InputError
from kernels.tree_attention import LOG2_E
from kernels.tree_layout import WORD_BITS, TreeLayout
from lessons.lib.model.llama import Attend, LlamaModel

BLOCK_N = 16
# (acc, row_max, row_sum, scores, values, visible, words, node, IS_TREE) -> the first three
Step = Callable[..., Any]
Normalize = Callable[[Any, Any], Any]


class SteppedModel(LlamaModel):
    """The same weights; attention is made of `step` and `normalize`, over plain lists."""

    def __init__(self, model: LlamaModel, step: Step, normalize: Normalize) -> None:
        self.__dict__.update(vars(model))
        self._step, self._normalize = step, normalize

    def attention(self, layout: TreeLayout, pool: KVPool) -> Attend:
        """As the model's, by the student's lines."""
        scale = self.config.head_dim**-0.5
        return partial(
            stepped_attention,
            layout=layout,
            scale=scale,
            step=self._step,
            normalize=self._normalize,
        )


def stepped_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    layout: TreeLayout,
    scale: float,
    step: Step,
    normalize: Normalize,
) -> Tensor:
    """Arguments as for `tree_attention`. Raises InputError for what is no state of the tile."""
    out = torch.zeros_like(q)
    page_size, kv_heads = k_cache.shape[1:3]
    bounds = layout.qo_indptr.tolist()
    for request, context_len in enumerate(layout.context_lens.tolist()):
        rows = slice(bounds[request], bounds[request + 1])
        length = context_len + rows.stop - rows.start
        positions = torch.arange(length)
        slots = layout.block_table[request, positions // page_size].long(), positions % page_size
        grouped = q[rows].unflatten(1, (kv_heads, -1))  # [nodes, kv_heads, group, head_dim]
        words = layout.mask_bits[rows].repeat_interleave(grouped.shape[2], dim=0)
        for head in range(kv_heads):
            keys, values = k_cache[slots][:, head].double(), v_cache[slots][:, head].double()
            tile = grouped[:, head].flatten(0, 1).double()
            scores = tile @ keys.T * scale * LOG2_E
            mixed = _attend_tile(scores, values, words, context_len, step, normalize)
            out[rows].unflatten(1, (kv_heads, -1))[:, head] = mixed.unflatten(
                0, (-1, grouped.shape[2])
            ).to(q.dtype)
    return out


def _attend_tile(
    scores: Tensor,
    values: Tensor,
    words: Tensor,
    context_len: int,
    step: Step,
    normalize: Normalize,
) -> Tensor:
    """scores [rows, length], values [length, head_dim], words [rows, num_words] -> mixed values."""
    num_rows, head_dim = scores.shape[0], values.shape[1]
    state = (
        torch.zeros(num_rows, head_dim, dtype=torch.float64),
        torch.full((num_rows,), -torch.inf, dtype=torch.float64),
        torch.zeros(num_rows, dtype=torch.float64),
    )
    for start, end in _ranges(context_len, scores.shape[1]):
        is_tree = start >= context_len
        node = (
            torch.arange(start, end) - context_len if is_tree else torch.zeros(end - start).long()
        )
        block = (
            scores[:, start:end],
            values[start:end],
            torch.ones(num_rows, end - start, dtype=torch.bool),
            words[:, node // WORD_BITS],
            node,
        )
        answer = step(*(part.tolist() for part in (*state, *block)), is_tree)
        if not isinstance(answer, tuple | list) or len(answer) != 3:
            raise InputError("online_softmax_step must return (acc, row_max, row_sum)")
        names = ("acc", "row_max", "row_sum")
        acc, row_max, row_sum = (
            checked(*part) for part in zip(answer, (x.shape for x in state), names, strict=True)
        )
        state = acc, row_max, row_sum
    mixed = normalize(state[0].tolist(), state[2].tolist())
    return checked(mixed, state[0].shape, "the value of normalize")


def _ranges(context_len: int, length: int) -> Iterator[tuple[int, int]]:
    """Blocks of columns: all prefix, or all tree."""
    for begin, end in ((0, context_len), (context_len, length)):
        for start in range(begin, end, BLOCK_N):
            yield start, min(start + BLOCK_N, end)


def checked(answer: Any, shape: torch.Size, name: str) -> Tensor:
    """An answer as float64. Raises InputError unless it has the shape."""
    try:
        tensor = torch.as_tensor(answer, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} is not an array of numbers") from error
    if tensor.shape != shape:
        raise InputError(f"{name} has shape {list(tensor.shape)}, expected {list(shape)}")
    return tensor
