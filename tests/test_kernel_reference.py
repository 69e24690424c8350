"""The references themselves, against torch and the engine's rules; null answers; bad arguments."""

import random

import pytest
import torch
from kernel_cases import (
    AttentionCase,
    assert_rows_close,
    assert_topk_right,
    drawn_chains,
    head_case,
    laws_and_coins,
    links_of,
)

from kernels.acceptance import accept_chain, accept_tree_delta, accept_tree_greedy
from kernels.draft_topk import draft_topk, draft_topk_ref
from kernels.rms_norm import add_rms_norm, rms_norm
from kernels.tree_attention import choose_num_splits, tree_attention, tree_attention_ref
from kernels.tree_attention_torch import plan_tree_attention
from kernels.tree_layout import TreeLayout, unpack_bits
from lessons.lib.tree import DraftTree, random_tree
from lessons.lib.tree_verify import (
    verify_tree_delta_in_order,
    verify_tree_greedy,
    verify_tree_without_replacement,
)

CASE = AttentionCase((11, 0, 4), (13, 1, 70), num_padding_rows=2)


class GivenCoins:
    """A RandomSource of the numbers a kernel was given: one coin and one final for each depth."""

    def __init__(self, coins, finals):
        self.coins, self.finals = coins, finals

    def accepts(self, probability, position):
        return self.coins[position] < probability

    def draw(self, probs, position):
        cumulative = probs.double().cumsum(0)
        threshold = self.finals[position].double() * cumulative[-1]
        return int(torch.searchsorted(cumulative, threshold, right=True))


@pytest.mark.parametrize("attend", [tree_attention, tree_attention_ref])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention_of_a_node_is_that_of_its_path_alone(dtype, attend):
    """Each root-to-node path is run as a sequence of its own through torch's causal attention."""
    q, k_cache, v_cache, layout = CASE.build(dtype)
    out = attend(q, k_cache, v_cache, layout, 0.25)
    bounds = layout.qo_indptr.tolist()
    for request, context in enumerate(CASE.context_lens):
        rows = range(bounds[request], bounds[request + 1])
        slots = [
            int(layout.block_table[request, p // CASE.page_size]) * CASE.page_size
            + p % CASE.page_size
            for p in range(context + len(rows))
        ]
        keys, values = (c.flatten(0, 1)[slots].double().transpose(0, 1) for c in (k_cache, v_cache))
        for node, row in enumerate(rows):
            seen = unpack_bits(layout.mask_bits[row : row + 1], len(rows))[0].nonzero()[:, 0]
            assert seen[-1] == node
            path = [*range(context), *(context + seen).tolist()]
            alone = torch.nn.functional.scaled_dot_product_attention(
                q[row, :, None].double(),
                keys[:, path].repeat_interleave(3, 0),
                values[:, path].repeat_interleave(3, 0),
                scale=0.25,
            )
            assert_rows_close(out[row], alone[:, 0], dtype)
    assert (out[bounds[-1] :] == 0).all()


def test_null_answers_fail_the_comparison():
    """What a kernel that does nothing, or next to nothing, would return."""
    q, k_cache, v_cache, layout = CASE.build(torch.float32)
    right = tree_attention(q, k_cache, v_cache, layout, 0.25)[:-2]
    causal = torch.full_like(layout.mask_bits, -1)
    wrong_mask = tree_attention(q, k_cache, v_cache, layout._replace(mask_bits=causal), 0.25)[:-2]
    wrong_scale = tree_attention(q, k_cache, v_cache, layout, 0.26)[:-2]
    nulls = [
        torch.zeros_like(right),
        torch.ones_like(right),
        q[:-2],
        right.mean(0).expand_as(right),
    ]
    for null in [*nulls, wrong_mask, wrong_scale, right * 1.001]:
        with pytest.raises(AssertionError):
            assert_rows_close(null, right.double(), torch.float32)
    one_row = right.clone()
    one_row[3] = 0
    with pytest.raises(AssertionError):
        assert_rows_close(one_row, right.double(), torch.float32)

    hidden, weight, d2t = head_case(3, 24, 40, torch.float32)
    log_probs, ids = draft_topk(hidden, weight, d2t, 4)
    for null in [
        (torch.zeros_like(log_probs), ids),
        (log_probs, torch.zeros_like(ids)),
        (log_probs, ids.flip(-1)),
        (log_probs, ids - d2t[0] - 1),
    ]:
        with pytest.raises((AssertionError, IndexError, RuntimeError)):
            assert_topk_right(null, hidden, weight, d2t, 4)


@pytest.mark.parametrize("seed", range(15))
def test_acceptance_agrees_with_the_rules_of_the_engine(seed):
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    trees = [random_tree(size, 4, rng) for size in (12, 1, 25)]
    links = links_of(trees)
    target = laws_and_coins(links, 4, seed)[0]
    coin_of_depth, final_of_depth = torch.rand(2, links.max_path_len, generator=generator)
    depths = torch.tensor([depth for tree in trees for depth in tree.depths])
    laws = target.split([tree.num_nodes for tree in trees])
    greedy = accept_tree_greedy(target.argmax(-1), links)
    delta = accept_tree_delta(target, links, coin_of_depth[depths], final_of_depth[depths])
    for request, tree in enumerate(trees):
        random_numbers = GivenCoins(coin_of_depth, final_of_depth)
        for batch, alone in [
            (greedy, verify_tree_greedy(tree, laws[request].argmax(-1))),
            (delta, verify_tree_delta_in_order(tree, laws[request], random_numbers, 0)),
        ]:
            assert_same(batch, request, alone)
    assert delta.path_lens[-1] == 0 and delta.next_tokens[-1] == greedy.next_tokens[-1] == -1


@pytest.mark.parametrize("seed", range(15))
def test_chain_acceptance_agrees_with_the_rule_of_the_engine(seed):
    draft_law = torch.tensor([0.4, 0.3, 0.2, 0.1])
    sizes = (5, 1, 8)
    chains = drawn_chains(draft_law, sizes, seed)
    links = links_of(chains)
    target, _, coins, finals = laws_and_coins(links, 4, seed, sharpness=0.7)
    draft = draft_law.expand_as(target).contiguous()
    batch = accept_chain(target, draft, links, coins, finals)
    rows = zip(*(t.split(sizes) for t in (target, draft, coins, finals)), strict=True)
    for request, (chain, (*laws, own_coins, own_finals)) in enumerate(
        zip(chains, rows, strict=True)
    ):
        random_numbers = GivenCoins(own_coins, own_finals)
        alone = verify_tree_without_replacement(chain, *laws, random_numbers, 0)
        assert_same(batch, request, alone)


def assert_same(batch, request, alone):
    length = int(batch.path_lens[request])
    assert tuple(batch.paths[request, :length].tolist()) == alone.accepted_path
    assert (batch.paths[request, length:] == -1).all()
    assert int(batch.next_tokens[request]) == alone.token_ids[-1]


def test_delta_draws_the_law_of_the_target():
    """5,000 requests in one batch; one row decides, so the sample is of the marginal law."""
    num_trials, law = 5000, torch.tensor([0.5, 0.2, 0.2, 0.1])
    links = links_of([DraftTree((2, 1, 3), (-1, 0, 0))] * num_trials, 0)
    generator = torch.Generator().manual_seed(0)
    coins, finals = torch.rand(2, 3 * num_trials, generator=generator)
    out = accept_tree_delta(law.repeat(3 * num_trials, 1), links, coins, finals)
    first = torch.where(
        out.path_lens == 1, out.next_tokens, torch.tensor([2, 1, 3])[out.paths[:, 1].long()]
    )
    measured = torch.bincount(first, minlength=4) / num_trials
    sigma = (law * (1 - law) / num_trials).sqrt()
    assert ((measured - law).abs() < 4 * sigma).all(), measured


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rms_norm_against_torch(dtype):
    x, residual, weight = (t.to(dtype) for t in torch.randn(3, 5, 33).unbind(0))
    weight = weight[0].contiguous()
    layer = torch.nn.functional.rms_norm(x.double(), (33,), weight.double(), eps=1e-6)
    assert_rows_close(rms_norm(x, weight, 1e-6), layer, dtype)
    normed, summed = add_rms_norm(x, residual, weight, 1e-6)
    assert torch.equal(summed, x + residual) and torch.equal(normed, rms_norm(summed, weight, 1e-6))


def test_head_against_the_full_vocabulary():
    for head in (draft_topk, draft_topk_ref):
        inputs = head_case(4, 32, 50, torch.float32)
        assert_topk_right(head(*inputs, 5), *inputs, 5)
    rounded, exact = (
        head(*head_case(4, 32, 50, torch.bfloat16), 5) for head in (draft_topk, draft_topk_ref)
    )
    assert_rows_close(rounded[0].bfloat16(), exact[0], torch.bfloat16)


@pytest.mark.parametrize("seed", range(12))
def test_attention_on_random_batches(seed):
    """Batches of 1 to 8, trees of up to 64 nodes, contexts of 0 to 500, pages of 1, 4 and 16."""
    rng = random.Random(seed)
    batch = rng.randint(1, 8)
    AttentionCase(
        context_lens=tuple(rng.choice([0, rng.randint(1, 500)]) for _ in range(batch)),
        num_nodes=tuple(rng.randint(1, 64) for _ in range(batch)),
        page_size=rng.choice([1, 4, 16]),
    ).check(torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_of_equal_trees_behind_unequal_contexts(dtype):
    """These share a call without a card, padded to the longest; slots of nobody hold NaN."""
    contexts = (30, 9, 41, 200, 0, 55, 31, 17, 25)
    AttentionCase(contexts, (1, 5, 1, 1, 5, 5, 1, 5, 5)).check(dtype)


def test_a_row_that_sees_nothing_is_zero():
    """Not NaN: rows of other requests would be lost with it in a later reduction."""
    q, k_cache, v_cache, layout = AttentionCase((0, 0), (3, 2)).build(torch.float32)
    layout.mask_bits[1] = 0
    for attend in (tree_attention, tree_attention_ref):
        out = attend(q, k_cache, v_cache, layout, 0.25)
        assert (out[1] == 0).all() and out[[0, 2, 3, 4]].abs().amin() > 0


def test_splits_depend_on_shapes_alone():
    assert choose_num_splits(num_programs=8, max_context=100, num_processors=132) == 1
    assert choose_num_splits(num_programs=8, max_context=4096, num_processors=132) == 16
    assert choose_num_splits(num_programs=300, max_context=10**6, num_processors=132) == 1
    assert choose_num_splits(num_programs=1, max_context=10**6, num_processors=132) == 32


def test_wrong_arguments_are_refused():
    q, k_cache, v_cache, layout = CASE.build(torch.float32)
    bad = [
        ((q[..., :20].contiguous(), k_cache, v_cache, layout), "head_dim 20 and 24"),
        ((q[:, :5].contiguous(), k_cache, v_cache, layout), "5 heads do not divide into 2"),
        ((q.half(), k_cache, v_cache, layout), "differ in dtype"),
        ((q, k_cache, v_cache[:3], layout), "differ in shape"),
        ((q, k_cache, v_cache, layout._replace(context_lens=layout.context_lens.long())), "int32"),
        ((q, k_cache, v_cache, layout._replace(num_splits=3)), "not a power of two"),
        ((q, k_cache, v_cache, layout._replace(max_query_len=200)), "too few mask words"),
        ((q.transpose(1, 2), k_cache, v_cache, layout), "head_dim"),
        ((q[:3], k_cache, v_cache, layout), "mask_bits rows"),
    ]
    for arguments, message in bad:
        with pytest.raises(AssertionError, match=message):
            tree_attention(*arguments, 0.25)
    links = links_of([DraftTree.chain([1, 2])])
    with pytest.raises(AssertionError, match="one argmax a node"):
        accept_tree_greedy(torch.zeros(3, dtype=torch.int64), links)
    with pytest.raises(AssertionError, match="laws and coins are float32"):
        accept_tree_delta(torch.ones(2, 4).double(), links, torch.ones(2), torch.ones(2))
    with pytest.raises(AssertionError, match="k is 17"):
        draft_topk(*head_case(1, 8, 40, torch.float32), 17)
    with pytest.raises(AssertionError, match="weight \\(3,\\) for hidden 4"):
        rms_norm(torch.ones(2, 4), torch.ones(3), 1e-6)


def test_requests_of_equal_shape_attend_together():
    tables = torch.tensor([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 11, 10]]).int()
    sizes, contexts = [3, 3, 1, 3], [8, 8, 8, 1]
    layout = TreeLayout(
        tables,
        torch.tensor(contexts).int(),
        torch.tensor([0, *sizes]).cumsum(0).int(),
        torch.ones(sum(sizes), 1, dtype=torch.int64),
        max(sizes),
    )
    plans = plan_tree_attention(layout, 4, 3, torch.float32)
    found = {part.batch: part for part in plans if part.batch > 1}
    assert sorted(part.batch for part in plans) == [1, 1, 2]  # 4 and 11 tokens of KV are too far
    assert found[2].slots.tolist() == [*range(11), *range(12, 23)]
    (short,) = (part for part in plans if len(part.slots) == 4)
    assert short.slots.tolist() == [36, 37, 38, 39] and short.rows == slice(7, 10)
