"""y = x @ weight.T for weights that never change, which is where a decode step spends its time.

One token through the default model (batch 1, context 256, bfloat16, two threads of an EPYC 9004,
medians of one noisy run): 41 ms, of which 24 to 34 are these 121 products, 4 the attention and 2.5
everything else, Python included. Reading the 269 MB at the speed of a large sum would take 6 to 8.
oneDNN reads a weight faster when it lies in blocks of its own, and then 16 rows cost little more
than one: all layers took 20 to 18 ms at 1 row, 35 to 20 at 8, 58 to 28 at 32. In float32 the
products of a whole step took 46 to 23 ms at 1 row, 57 to 24 at 8, 99 to 51 at 32 (another EPYC,
workers that spin: kernels/__init__.py). So a weight is laid out once, when the model is built.
torch keeps the operators private (inductor's freezing emits them): where a probe does not find
them working, weights stay as they are.
"""

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

ROWS_HINT = 16  # rows that the blocks are laid out for: a verify step's


def linear_ref(x: Tensor, weight: Tensor) -> Tensor:
    """In float32 (float64 for float64 input), rounded once. Arguments as for `linear`."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return (x.to(wide) @ weight.to_dense().to(wide).T).to(x.dtype)


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x [rows, in], weight [out, in] as `pack` gave it -> [rows, out]; same dtype."""
    if weight.is_mkldnn:
        return torch.ops.mkldnn._linear_pointwise.default(x, weight, None, "none", [], "")
    return functional.linear(x, weight)


def pack(weight: Tensor) -> Tensor:
    """The weight [out, in] in the layout that `linear` reads fastest; the given one can go.

    Only float32 and bfloat16 on a CPU have such a layout here, others come back as they are. A
    packed tensor has shape and dtype of the plain one, which `to_dense()` gives back bit for bit.
    """
    if weight.device.type != "cpu" or not can_pack(weight.dtype):
        return weight
    return torch.ops.mkldnn._reorder_linear_weight(weight, ROWS_HINT)


@cache
def can_pack(dtype: torch.dtype) -> bool:
    """Whether torch's private operators are here and right on this processor."""
    if dtype not in (torch.float32, torch.bfloat16):
        return False
    try:
        if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            return False
        x, weight = torch.eye(32, dtype=dtype), torch.arange(2048.0).view(64, 32).to(dtype)
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS_HINT)
        return torch.equal(linear(x, packed), weight.T)
    except (AttributeError, RuntimeError, TypeError):  # gone, built without oneDNN, or changed
        return False
