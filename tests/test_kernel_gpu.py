"""Kernels and graphs on a card, at shapes a model has."""

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

from kernels import acceptance
from kernels.acceptance import accept_chain, accept_tree_delta, accept_tree_greedy
from kernels.draft_topk import draft_topk
from kernels.graphs import LAST, CudaBackend, GraphBuckets, GraphKey
from kernels.rms_norm import add_rms_norm, rms_norm, rms_norm_ref
from kernels.tree_attention import tree_attention, tree_attention_ref
from kernels.tree_layout import TreeLayout
from lessons.lib.tree import random_tree

pytestmark = pytest.mark.gpu
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
MODEL = {"num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "page_size": 16}
SMOLLM = {"num_heads": 9, "num_kv_heads": 3, "head_dim": 64, "page_size": 16}
CASES = {
    "decode": AttentionCase((1000, 17, 4000, 1), (1,) * 4, num_splits=None, **MODEL),
    "tree of 64": AttentionCase((2000, 0, 500), (64, 60, 33), num_splits=None, **MODEL),
    "long context, one request": AttentionCase((20000,), (16,), num_splits=None, **MODEL),
    "GQA 3:1": AttentionCase((300, 700), (32, 9), num_splits=None, **SMOLLM),
    "prompt chunk": AttentionCase((512, 0), (256, 300), num_splits=1, is_chain=True, **MODEL),
    "padding": AttentionCase((100, 0, 7), (5, 0, 64), num_splits=4, num_padding_rows=9, **SMOLLM),
    "pages of one": AttentionCase((100,), (40,), num_heads=8, head_dim=96, page_size=1),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_tree_attention(name, dtype):
    CASES[name].check(dtype, "cuda")


@pytest.mark.parametrize("num_splits", [1, 2, 8, 32])
def test_splits_agree(num_splits):
    case = AttentionCase((3000, 5), (20, 8), num_splits=num_splits, **SMOLLM)
    case.check(torch.float32, "cuda")


@pytest.mark.parametrize("seed", range(5))
def test_acceptance(seed):
    rng, vocab_size = random.Random(seed), 50000
    trees = [random_tree(rng.randint(1, 64), 6, rng) for _ in range(32)]
    links = links_of(trees)
    target, _, coins, finals = laws_and_coins(links, 6, seed)
    target = torch.nn.functional.pad(target, (0, vocab_size - 6))
    on_card = acceptance.TreeLinks(*(t.cuda() for t in links[:4]), links.max_path_len)
    argmax = target.argmax(-1)
    pairs = [
        (accept_tree_greedy(argmax.cuda(), on_card), accept_tree_greedy(argmax, links)),
        (
            accept_tree_delta(target.cuda(), on_card, coins.cuda(), finals.cuda()),
            accept_tree_delta(target, links, coins, finals),
        ),
    ]
    chains = links_of(drawn_chains(torch.full((6,), 1 / 6), [8] * 32, seed))
    target, draft, coins, finals = laws_and_coins(chains, 6, seed, sharpness=0.5)
    on_card = acceptance.TreeLinks(*(t.cuda() for t in chains[:4]), chains.max_path_len)
    inputs = [t.cuda() for t in (target, draft)], [t.cuda() for t in (coins, finals)]
    pairs.append(
        (
            accept_chain(*inputs[0], on_card, *inputs[1]),
            accept_chain(target, draft, chains, coins, finals),
        )
    )
    for card, host in pairs:
        assert host.path_lens.max() > 1
        for one, other in zip(card, host, strict=True):
            assert torch.equal(one.cpu(), other)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("rows", "vocab", "k"), [(1, 32000, 1), (10, 32000, 10), (70, 16384, 8)])
def test_draft_topk(rows, vocab, k, dtype):
    inputs = head_case(rows, 2048, vocab, dtype, "cuda")
    assert_topk_right(draft_topk(*inputs, k), *inputs, k)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 576), (64, 4096), (3, 5, 8192)], ids=str)
def test_rms_norm(shape, dtype):
    x, residual = (torch.randn(shape, device="cuda").to(dtype) for _ in range(2))
    weight = torch.randn(shape[-1], device="cuda").to(dtype)
    wide = rms_norm_ref(x.double(), weight.double(), 1e-5)
    assert_rows_close(rms_norm(x, weight, 1e-5), wide, dtype)
    normed, summed = add_rms_norm(x, residual, weight, 1e-5)
    assert torch.equal(summed, x + residual)
    assert_rows_close(normed, rms_norm_ref(summed.double(), weight.double(), 1e-5), dtype)


def attention_graphs(k_cache, v_cache, bucket, num_splits):
    """Tree attention behind graph buckets, as an engine would use it."""
    names = TreeLayout._fields[:4]

    def attend(inputs):
        parts = (inputs[name] for name in names)
        layout = TreeLayout(*parts, bucket.query_len, num_splits)
        return {"out": tree_attention(inputs["q"], k_cache, v_cache, layout, 0.1)}

    def allocate(key):
        rows, batch = key.num_requests * key.query_len, key.num_requests
        integers = {"dtype": torch.int32, "device": "cuda"}
        return {
            "q": torch.zeros(rows, 9, 64, device="cuda", dtype=k_cache.dtype),
            "block_table": torch.zeros(batch, key.max_pages, **integers),
            "context_lens": torch.zeros(batch, **integers),
            "qo_indptr": torch.zeros(batch + 1, **integers),
            "mask_bits": torch.zeros(rows, 1, dtype=torch.int64, device="cuda"),
        }

    return GraphBuckets(attend, allocate, [bucket], {"qo_indptr": LAST}, backend=CudaBackend())


@pytest.mark.parametrize("num_splits", [1, 8])
def test_replay_with_changed_inputs(num_splits):
    """Trees, contexts and batch sizes change between replays of one graph."""
    bucket = GraphKey(8, 16, 200, ("attention", torch.bfloat16, num_splits))
    graphs = None
    for seed, nodes in enumerate([(16, 3, 9), (1, 1, 1), (16,) * 5, (2,)]):
        contexts = tuple(100 * (seed + 1) + 7 * i for i in range(len(nodes)))
        case = AttentionCase(contexts, nodes, num_splits=num_splits, **SMOLLM)
        q, k_new, v_new, layout = case.build(torch.bfloat16, "cuda", seed)
        if graphs is None:
            k_cache, v_cache = (torch.zeros(400, *k_new.shape[1:]).to(k_new) for _ in range(2))
            graphs = attention_graphs(k_cache, v_cache, bucket, num_splits)
        k_cache[: len(k_new)], v_cache[: len(v_new)] = k_new, v_new
        inputs = {"q": q, **dict(zip(TreeLayout._fields[:4], layout[:4], strict=True))}
        key = GraphKey(len(nodes), 16, layout.block_table.shape[1], bucket.fixed)
        out = graphs(key, inputs)["out"]
        wide = (tensor.double() for tensor in (q, k_new, v_new))
        expected = tree_attention_ref(*wide, layout, 0.1)
        assert_rows_close(out[: len(q)], expected, torch.bfloat16)
        assert (out[len(q) :] == 0).all()
    assert (graphs.counters.miss, graphs.counters.padded, graphs.counters.eager) == (1, 4, 0)


def test_acceptance_needs_no_host():
    """The whole acceptance is captured: a hidden wait for the device would fail the capture."""
    links = links_of([random_tree(16, 6, random.Random(0))], 0, "cuda")
    target, _, coins, finals = (t.cuda() for t in laws_and_coins(links, 6, 0))

    def run(inputs):
        out = accept_tree_delta(inputs["target"], links, inputs["coins"], inputs["finals"])
        return out._asdict()

    def allocate(key):
        return {"target": target.clone(), "coins": coins.clone(), "finals": finals.clone()}

    key = GraphKey(1, 16, 0)
    graphs = GraphBuckets(run, allocate, [key], backend=CudaBackend())
    inputs = {"target": target, "coins": coins, "finals": finals}
    captured = graphs(key, inputs)
    for name, tensor in run(inputs).items():
        assert torch.equal(captured[name], tensor)
