"""Kernels under Triton's interpreter. Run by `test_kernel_interpreter.py` in a process of its own:
TRITON_INTERPRET must be set before Triton is imported. Shapes are tiny, a program takes 25 ms."""

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

from kernels import acceptance, runtime, tree_attention
from kernels.acceptance import accept_chain, accept_tree_delta, accept_tree_greedy
from kernels.draft_topk import draft_topk
from kernels.rms_norm import add_rms_norm, rms_norm, rms_norm_ref
from lessons.lib.tree import DraftTree, random_tree

DTYPES = [torch.float32, torch.float16]  # the interpreter adds and multiplies bfloat16 wrongly
CASES = {
    "pages of one": AttentionCase((5, 0), (7, 1), page_size=1),
    "pages of sixteen, no prefix": AttentionCase((0, 17), (9, 3), page_size=16, num_heads=3,
                                                 num_kv_heads=1, head_dim=40),
    "one node each": AttentionCase((33, 1, 0), (1, 1, 1), num_heads=4, num_kv_heads=4),
    "padding requests and rows": AttentionCase((6, 0, 2, 0), (4, 0, 5, 0), num_kv_heads=1,
                                               num_padding_rows=3),
    "two mask words": AttentionCase((3,), (70,), num_heads=1, num_kv_heads=1, head_dim=16),
    "long chain, several tiles": AttentionCase((40,), (66,), num_heads=3, num_kv_heads=1,
                                               page_size=16, is_chain=True),
    "two splits": AttentionCase((70, 0), (3, 2), num_heads=3, num_kv_heads=1, num_splits=2),
    "more splits than tiles": AttentionCase((9,), (5,), num_heads=3, num_kv_heads=1, num_splits=4,
                                            num_padding_rows=1),
}  # fmt: skip


def test_kernels_are_interpreted():
    assert runtime.IS_INTERPRETED
    assert "Interpreted" in type(tree_attention.tree_attention_kernel).__name__


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_tree_attention(name, dtype):
    CASES[name].check(dtype)


@pytest.mark.parametrize("seed", range(8))
def test_tree_attention_on_random_shapes(seed):
    rng = random.Random(seed)
    batch, num_kv_heads = rng.randint(1, 3), rng.choice([1, 2])
    AttentionCase(
        context_lens=tuple(rng.choice([0, 1, rng.randint(2, 90)]) for _ in range(batch)),
        num_nodes=tuple(rng.choice([1, rng.randint(2, 40)]) for _ in range(batch)),
        page_size=rng.choice([1, 4, 16]),
        num_heads=num_kv_heads * rng.choice([1, 3]),
        num_kv_heads=num_kv_heads,
        head_dim=rng.choice([16, 24, 64]),
    ).check(torch.float32)


def test_tiles_that_no_row_sees_are_not_read():
    case = AttentionCase((5,), (70,), num_heads=1, num_kv_heads=1, page_size=1, is_chain=True)
    q, k_cache, v_cache, layout = case.build(torch.float32)
    # Rows see nodes 0 to 31 at most; everything behind would turn a weight of zero into NaN.
    layout.mask_bits[:, 0] &= 2**32 - 1
    layout.mask_bits[:, 1] = 0
    k_cache[layout.block_table[0, 5 + 32 : 75].long()] = torch.nan
    v_cache[layout.block_table[0, 5 + 32 : 75].long()] = torch.nan
    out = tree_attention.tree_attention(q, k_cache, v_cache, layout, 0.3)
    wide = (tensor.double().nan_to_num() for tensor in (q, k_cache, v_cache))
    assert_rows_close(out, tree_attention.tree_attention_ref(*wide, layout, 0.3), torch.float32)


def assert_same_walk(rule, links, target, draft, coins):
    kernel = acceptance._walk(links, rule, target, draft, coins)
    reference = acceptance.walk_ref(links, rule, target, draft, coins)
    for one, other in zip(kernel, reference, strict=True):
        assert torch.equal(one, other)
    return reference.path_lens.max()


@pytest.mark.parametrize("seed", range(4))
def test_walks_of_trees(seed):
    rng = random.Random(seed)
    trees = [random_tree(20, 4, rng), DraftTree.chain([1]), random_tree(9, 4, rng)]
    links = links_of(trees, num_padding_requests=2)
    target, _, coins, finals = laws_and_coins(links, 4, seed)
    argmax = target.argmax(-1)
    longest = assert_same_walk(acceptance.GREEDY, links, argmax, argmax, argmax)
    longest += assert_same_walk(acceptance.DELTA, links, target, target, coins)
    assert longest > 2  # something was accepted
    assert accept_tree_greedy(argmax, links).next_tokens[-2:].tolist() == [-1, -1]
    assert accept_tree_delta(target, links, coins, finals).path_lens[-2:].tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(2))
def test_walks_of_chains(seed):
    links = links_of(drawn_chains(torch.tensor([0.4, 0.3, 0.2, 0.1]), (6, 1, 8), seed))
    target, draft, coins, finals = laws_and_coins(links, 4, seed, sharpness=0.5)
    assert assert_same_walk(acceptance.CHAIN, links, target, draft, coins) > 1
    assert accept_chain(target, draft, links, coins, finals).next_tokens[-1] == -1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("rows", "hidden", "vocab", "k"), [(1, 40, 70, 1), (19, 16, 64, 4)])
def test_draft_topk(rows, hidden, vocab, k, dtype):
    inputs = head_case(rows, hidden, vocab, dtype)
    assert_topk_right(draft_topk(*inputs, k), *inputs, k)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 70), (1, 2, 64), (2, 1)], ids=str)
def test_rms_norm(shape, dtype):
    generator = torch.Generator().manual_seed(0)
    x, residual = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    weight = torch.randn(shape[-1], generator=generator).to(dtype)
    wide = rms_norm_ref(x.double(), weight.double(), 1e-5)
    assert_rows_close(rms_norm(x, weight, 1e-5), wide, dtype)
    normed, summed = add_rms_norm(x, residual, weight, 1e-5)
    assert torch.equal(summed, x + residual)
    assert_rows_close(normed, rms_norm_ref(summed.double(), weight.double(), 1e-5), dtype)
