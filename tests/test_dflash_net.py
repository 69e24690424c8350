"""The network of DFlash against a slow one, query by query; what a row sees and does not see."""

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.draft.dflash_net import dflash_layers
from tests.batch_kit import (
    random_ids,
    relative_error,
    tiny_model,
)
from tests.block_kit import (
    BLOCK,
    block_embeds,
    block_net,
    slow_block_hidden,
    target_features,
)


def fast_hidden(net, features, embeds):
    anchor = len(features)
    context = net.context(features, torch.arange(anchor))
    return net(embeds, torch.arange(anchor, anchor + len(embeds)), context)


@pytest.mark.parametrize("has_qk_norm", [True, False])
def test_the_pass_is_the_slow_one(has_qk_norm):
    model, _ = tiny_model()
    net = block_net("dflash", model.config, has_qk_norm=has_qk_norm)
    ids = random_ids(12, seed=1)
    features, embeds = target_features(model, ids[:-1]), block_embeds(model, ids[-1])
    with torch.no_grad():
        expected = slow_block_hidden(net, features, embeds)
        assert relative_error(fast_hidden(net, features, embeds), expected) < 1e-5
        moved = slow_block_hidden(net, features, embeds, shift=1)
        assert relative_error(fast_hidden(net, features, embeds), moved) > 1e-2
        late = slow_block_hidden(net, features.roll(1, 0), embeds)
        assert relative_error(fast_hidden(net, features, embeds), late) > 1e-2


def test_every_row_sees_the_whole_block_and_the_whole_context():
    model, _ = tiny_model()
    net = block_net("dflash", model.config)
    features = target_features(model, random_ids(6, seed=2)).requires_grad_()
    embeds = block_embeds(model, 3).clone().requires_grad_()
    for row in range(BLOCK):
        out = fast_hidden(net, features, embeds)[row].square().sum()
        seen = torch.autograd.grad(out, (features, embeds))
        assert all((part.abs().sum(-1) > 0).all() for part in seen)


def test_several_blocks_in_one_masked_pass_are_the_single_ones_and_leak_nothing():
    """What training does: a block sees the text before its anchor and itself, not what follows."""
    model, _ = tiny_model()
    net, ids = block_net("dflash", model.config), random_ids(14, seed=3)
    features, anchors = target_features(model, ids), (4, 9)
    embeds = torch.cat([block_embeds(model, ids[anchor]) for anchor in anchors])
    positions = torch.cat([torch.arange(anchor, anchor + BLOCK) for anchor in anchors])
    mask = torch.zeros(len(embeds), len(ids) + len(embeds), dtype=torch.bool)
    for number, anchor in enumerate(anchors):
        own = slice(number * BLOCK, (number + 1) * BLOCK)
        mask[own, :anchor] = mask[own, len(ids) :][:, own] = True

    @torch.no_grad()
    def masked_pass(features):
        return net(embeds, positions, net.context(features, torch.arange(len(ids))), mask)

    together = masked_pass(features)
    with torch.no_grad():
        single = [fast_hidden(net, features[:a], block_embeds(model, ids[a])) for a in anchors]
    torch.testing.assert_close(together, torch.cat(single), rtol=1e-4, atol=1e-4)
    changed = features.clone()
    changed[anchors[0] :] += 1
    assert torch.equal(masked_pass(changed)[:BLOCK], together[:BLOCK])
    changed = features.clone()
    changed[anchors[0] - 1] += 1
    assert relative_error(masked_pass(changed)[:BLOCK], together[:BLOCK]) > 1e-3


def test_the_layers_are_the_authors():
    """Qwen3-8B: what leaves layers 1, 9, 17, 25 and 33 enters the ones after them."""
    assert dflash_layers(36, 5) == (2, 10, 18, 26, 34)
    assert dflash_layers(30, 1) == (16,)
    with pytest.raises(InputError, match="feature layers"):
        dflash_layers(3, 2)
