"""Packed drafters: every matrix, the plain weights in them, the target's head once, same logits."""

import copy

import pytest
import torch
from batch_kit import tiny_model
from block_kit import block_net
from drafter_kit import random_net
from eagle3_kit import tiny_net
from torch import nn

from kernels.linear import can_pack
from lessons.lib.draft.packing import PackedLinear, pack_net

KINDS = ("mtp", "frozen_kv_mtp", "eagle3", "dflash", "dspark")
pytestmark = pytest.mark.skipif(not can_pack(torch.float32), reason="torch packs nothing here")


def plain_net(kind, model):
    if kind == "eagle3":
        return tiny_net()
    return block_net(kind, model.config) if kind[0] == "d" else random_net(kind, model)


def logits(net, kind, hidden, model):
    if kind == "frozen_kv_mtp":
        attend = lambda layer, query: query.flatten(-2)  # noqa: E731
        positions = torch.zeros(len(hidden), dtype=torch.int64)
        return torch.cat(net(hidden, hidden, positions, attend), -1)
    if kind[0] == "d":
        return net.base_logits(hidden, model)
    return net.logits(net.finish(hidden, hidden.repeat(1, 2)[:, : net_width(net, kind)]))


def net_width(net, kind):
    layer = net if kind == "eagle3" else net.layers[0].self_attn
    return layer.o_proj.weight.shape[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_net_is_the_plain_one(kind):
    model, _ = tiny_model()
    plain = plain_net(kind, model)
    packed = copy.deepcopy(plain)
    for name in ("head", "target_norm"):  # shared with the target, not copied
        if hasattr(plain, name):
            setattr(packed, name, getattr(plain, name))
    pack_net(packed, model)
    matrices = {
        n: m for n, m in plain.named_modules() if isinstance(m, nn.Linear) and m.bias is None
    }
    assert len(matrices) >= 5
    for name, matrix in matrices.items():
        found = packed.get_submodule(name)
        assert isinstance(found, PackedLinear) and found.weight.is_mkldnn
        assert torch.equal(found.weight.to_dense(), matrix.weight)
    if hasattr(plain, "head"):
        assert plain.head is model.lm_head and packed.head is model.packed_head
    size = sum(parameter.numel() for parameter in plain.parameters())
    assert sum(parameter.numel() for parameter in packed.parameters()) == size

    hidden = torch.randn(5, model.config.hidden_size, generator=torch.Generator().manual_seed(3))
    expected, got = logits(plain, kind, hidden, model), logits(packed, kind, hidden, model)
    scale = expected.abs().max()
    assert (got - expected).abs().max() <= 1e-5 * scale
    for wrong in (torch.zeros_like(got), torch.ones_like(got), got.roll(1, -1)):
        assert (wrong - expected).abs().max() > 0.05 * scale
