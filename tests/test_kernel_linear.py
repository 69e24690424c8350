"""Packed weights: the plain product, the plain weight bit for bit, and a way without them."""

import pytest
import torch

from kernels import linear as module
from kernels.linear import can_pack, linear, linear_ref, pack
from tests.engine_models import reference_model, smollm, write_folder

SHAPES = [(1, 48, 97), (3, 576, 960), (17, 80, 48), (64, 7, 5)]
DTYPES = [torch.float32, torch.bfloat16]
needs_packing = pytest.mark.skipif(
    not all(can_pack(dtype) for dtype in DTYPES), reason="this processor or torch packs nothing"
)


def draw(rows, columns, out, dtype):
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, columns, generator=generator).to(dtype)
    return x, torch.randn(out, columns, generator=generator).to(dtype)


def is_right(found, x, weight):
    """Within the rounding of one result in its dtype (float32: of a long sum), on the scale of the
    sum's terms."""
    rounding = {torch.bfloat16: 2**-8, torch.float32: 2**-20}[found.dtype]
    exact = x.double() @ weight.double().T
    scale = x.double().abs() @ weight.double().abs().T
    return bool(((found.double() - exact).abs() <= scale * rounding + 1e-30).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_product(shape, dtype):
    x, weight = draw(*shape, dtype)
    found = linear(x, pack(weight))
    assert found.dtype == dtype and found.shape == (shape[0], shape[2])
    assert is_right(found, x, weight)
    assert is_right(linear_ref(x, pack(weight)), x, weight)
    for wrong in (torch.zeros_like(found), torch.ones_like(found), found.roll(1, -1)):
        assert not is_right(wrong, x, weight)


@needs_packing
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_packed_weight_gives_the_plain_one_back(shape, dtype):
    _, weight = draw(*shape, dtype)
    packed = pack(weight)
    assert packed.is_mkldnn and packed.shape == weight.shape and packed.dtype == weight.dtype
    assert torch.equal(packed.to_dense(), weight)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_another_dtype_stays_as_it_is(dtype):
    _, weight = draw(2, 8, 8, dtype)
    assert pack(weight) is weight


@needs_packing
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_default_model_is_packed(dtype):
    layers = smollm(dtype).model.layers
    assert all(w.is_mkldnn for x in layers for w in (x.qkv, x.attn_out, x.gate_up, x.down))
    assert not smollm(dtype).model.lm_head.is_mkldnn  # tied with the embedding


def test_without_the_operators_the_plain_path_serves(monkeypatch, tmp_path):
    """A torch that has dropped or changed them: the probe says no and the model still runs."""
    from lessons.lib.model.loader import load_model

    class Gone:
        def __getattr__(self, name):
            raise AttributeError(name)

    class Wrong:
        def __init__(self):
            self._linear_pointwise = self

        def _is_mkldnn_bf16_supported(self):
            return True

        def _reorder_linear_weight(self, weight, rows):
            return weight.to_mkldnn()

        def default(self, x, weight, *rest):
            return x.new_zeros(x.shape[0], weight.shape[0])

    folder = write_folder(reference_model("llama"), tmp_path)
    for operators in (Gone(), Wrong()):
        with monkeypatch.context() as patch:
            patch.setattr(module.torch.ops, "mkldnn", operators)
            can_pack.cache_clear()
            try:
                for dtype in ("float32", "bfloat16"):
                    assert not can_pack(getattr(torch, dtype))
                    model, _ = load_model(folder, dtype, "cpu")
                    assert not any(layer.qkv.is_mkldnn for layer in model.layers)
            finally:
                can_pack.cache_clear()
