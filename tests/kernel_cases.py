"""Inputs for the kernels and the comparison of their outputs, on any device.

`kernel_interpreted.py` runs them on small odd shapes under Triton's interpreter,
`test_kernel_gpu.py` on a card.
"""

import random
from dataclasses import dataclass

import torch

from kernels.acceptance import TreeLinks
from kernels.tree_attention import tree_attention, tree_attention_ref
from kernels.tree_layout import TreeLayout
from lessons.lib.tree import DraftTree, batch_trees, random_tree

# Of a row's norm: rounding of the output plus that of the products.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}


def assert_rows_close(actual, expected, dtype):
    """Every row's error is small against that row's own norm; rows of zeros are exactly zero."""
    assert actual.shape == expected.shape and actual.dtype == dtype
    actual, expected = actual.double(), expected.double()
    error = (actual - expected).norm(dim=-1)
    bound = TOLERANCE[dtype] * expected.norm(dim=-1)
    assert (error <= bound).all(), f"worst row: {(error / bound).max():.3g} of the tolerance"


@dataclass
class AttentionCase:
    """One batch: `context_lens` and `num_nodes` (0 is a padding request) for each request."""

    context_lens: tuple
    num_nodes: tuple
    page_size: int = 4
    num_heads: int = 6
    num_kv_heads: int = 2
    head_dim: int = 24
    num_splits: int | None = 1
    num_padding_rows: int = 0
    is_chain: bool = False

    def build(self, dtype, device="cpu", seed=0):
        """(q, k_cache, v_cache, layout); slots that no request owns hold NaN."""
        rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
        sizes = [size for size in self.num_nodes if size]
        trees = [
            DraftTree.chain([1] * size) if self.is_chain else random_tree(size, 50, rng)
            for size in sizes
        ]
        batch = batch_trees(trees, [0] * len(trees))
        num_pages = [
            -(-(context + nodes) // self.page_size) if nodes else 0
            for context, nodes in zip(self.context_lens, self.num_nodes, strict=True)
        ]
        shuffled = torch.randperm(sum(num_pages) + 3, generator=generator).int()
        table = torch.zeros(len(num_pages), max(num_pages) + 1, dtype=torch.int32)
        shape = (sum(num_pages) + 3, self.page_size, self.num_kv_heads, self.head_dim)
        caches = [torch.full(shape, torch.nan) for _ in range(2)]
        for request, pages in enumerate(num_pages):
            own = shuffled[sum(num_pages[:request]) :][:pages]
            table[request, :pages] = own
            length = self.context_lens[request] + self.num_nodes[request]
            slots = (own.long()[:, None] * self.page_size + torch.arange(self.page_size)).flatten()
            for cache in caches:
                rows = torch.randn(length, *shape[2:], generator=generator)
                cache.view(-1, *shape[2:])[slots[:length]] = rows
        total = sum(sizes) + self.num_padding_rows
        q = torch.randn(total, self.num_heads, self.head_dim, generator=generator)
        bits = torch.nn.functional.pad(batch.mask_bits, (0, 0, 0, self.num_padding_rows))
        indptr = torch.tensor([0, *self.num_nodes]).cumsum(0).int()
        layout = TreeLayout(
            table.to(device),
            torch.tensor(self.context_lens, dtype=torch.int32, device=device),
            indptr.to(device),
            bits.to(device),
            batch.max_query_len,
            self.num_splits,
        )
        return *(tensor.to(device, dtype) for tensor in (q, *caches)), layout

    def check(self, dtype, device="cpu"):
        q, k_cache, v_cache, layout = self.build(dtype, device)
        scale = self.head_dim**-0.5
        out = tree_attention(q, k_cache, v_cache, layout, scale)
        wide = (tensor.double() for tensor in (q, k_cache, v_cache))
        assert_rows_close(out, tree_attention_ref(*wide, layout, scale), dtype)


def links_of(trees, num_padding_requests=1, device="cpu"):
    """TreeLinks of `trees`, followed by requests without nodes."""
    batch = batch_trees(trees, [0] * len(trees), device)
    indptr = torch.cat([batch.qo_indptr, batch.qo_indptr[-1:].repeat(num_padding_requests)])
    return TreeLinks(
        batch.token_ids, batch.first_child, batch.next_sibling, indptr, batch.max_path_len
    )


def laws_and_coins(links, vocab_size, seed, sharpness=2.0):
    """target_probs, draft_probs [nodes, vocab], coins and finals [nodes] on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    num_nodes = links.token_ids.shape[0]
    normal = torch.randn(2, num_nodes, vocab_size, generator=generator) * sharpness
    return *normal.softmax(-1), *torch.rand(2, num_nodes, generator=generator)


def drawn_chains(draft_law, sizes, seed):
    """Chains of which every guess is drawn from `draft_law` [vocab]."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.multinomial(draft_law, sum(sizes), replacement=True, generator=generator)
    return [DraftTree.chain(part.tolist()) for part in tokens.split(list(sizes))]


def head_case(num_rows, hidden_size, draft_vocab, dtype, device="cpu", seed=0):
    """hidden, weight and d2t of a draft head whose ids are spread over the target vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(num_rows, hidden_size, generator=generator)
    weight = torch.randn(draft_vocab, hidden_size, generator=generator) * hidden_size**-0.5
    d2t = torch.randint(0, 4, (draft_vocab,), generator=generator).cumsum(0)
    return hidden.to(device, dtype), weight.to(device, dtype), d2t.to(device)


def assert_topk_right(actual, hidden, weight, d2t, k):
    """Log-probs as in float64, and every id is the owner of its log-prob, none twice."""
    log_probs, target_ids = actual
    wide = (hidden.double() @ weight.double().T).log_softmax(-1)
    expected = wide.topk(k, dim=-1).values
    assert_rows_close(log_probs, expected, torch.float32)
    by_target = torch.full((len(wide), int((torch.arange(len(d2t)).to(d2t) + d2t).max()) + 1), -1e9)
    by_target = by_target.double().to(wide.device)
    by_target[:, torch.arange(len(d2t)).to(d2t) + d2t] = wide
    assert_rows_close(by_target.gather(1, target_ids).float(), expected, torch.float32)
    assert all(len(set(row)) == k for row in target_ids.tolist())
