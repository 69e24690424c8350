"""RMSNorm, alone and fused with the residual sum that stands before it in every decoder layer.

Without a card torch's own norm serves, which rounds as `transformers` does.
"""

import torch
from torch import Tensor
from torch.nn import functional

from kernels.runtime import uses_triton

try:
    import triton
    import triton.language as tl
except ImportError:  # there are no wheels outside Linux; torch does the norm there
    triton = None


def rms_norm_ref(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """In float32 (float64 for float64 input), rounded once at the end. Arguments as for the op."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale * weight.to(wide.dtype)).to(x.dtype)


def add_rms_norm_ref(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """The sum is rounded to the dtype first, as it is when the two are separate operations."""
    summed = x + residual
    return rms_norm_ref(summed, weight, eps), summed


if triton is not None:

    @triton.jit
    def rms_norm_kernel(  # type: ignore[no-untyped-def]
        x, residual, weight, out, summed,  # residual and summed only where HAS_RESIDUAL
        num_columns, eps,
        BLOCK: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    ):  # fmt: skip
        """One program: one row, held in registers, read once and written once."""
        columns = tl.arange(0, BLOCK)
        offsets = tl.program_id(0).to(tl.int64) * num_columns + columns
        mask = columns < num_columns
        row = tl.load(x + offsets, mask=mask, other=0.0).to(tl.float32)
        if HAS_RESIDUAL:
            row += tl.load(residual + offsets, mask=mask, other=0.0).to(tl.float32)
            rounded = row.to(summed.dtype.element_ty)
            tl.store(summed + offsets, rounded, mask=mask)
            row = rounded.to(tl.float32)
        scale = tl.rsqrt(tl.sum(row * row, axis=0) / num_columns + eps)
        gain = tl.load(weight + columns, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + offsets, (row * scale * gain).to(out.dtype.element_ty), mask=mask)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / rms(x) * weight over the last axis. x [..., hidden], weight [hidden], same dtype.

    Raises AssertionError on wrong shapes, dtypes or devices.
    """
    _check_arguments(x, x, weight)
    if not uses_triton(x):
        return functional.rms_norm(x, weight.shape, weight, eps)
    return _launch(x, None, weight, eps)[0]


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(rms_norm(x + residual), x + residual). x and residual [..., hidden], weight [hidden].

    Raises AssertionError on wrong shapes, dtypes or devices.
    """
    _check_arguments(x, residual, weight)
    if not uses_triton(x):
        summed = x + residual
        return functional.rms_norm(summed, weight.shape, weight, eps), summed
    return _launch(x, residual, weight, eps)


def _launch(
    x: Tensor, residual: Tensor | None, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    out = torch.empty_like(x)
    summed = x if residual is None else torch.empty_like(x)
    num_columns = x.shape[-1]
    rms_norm_kernel[(x.numel() // num_columns,)](
        x, x if residual is None else residual, weight, out, summed, num_columns, eps,
        triton.next_power_of_2(num_columns), residual is not None,
    )  # fmt: skip
    return out, summed


def _check_arguments(x: Tensor, residual: Tensor, weight: Tensor) -> None:
    assert x.shape == residual.shape, f"x {tuple(x.shape)}, residual {tuple(residual.shape)}"
    assert weight.shape == x.shape[-1:], f"weight {tuple(weight.shape)} for hidden {x.shape[-1]}"
    assert x.dtype == residual.dtype == weight.dtype, "x, residual and weight differ in dtype"
    for tensor in (x, residual, weight):
        assert tensor.device == x.device and tensor.is_contiguous(), "one device, contiguous"
