"""Which path of each tree is accepted, for a whole batch, without asking the host.

Trees are given by first-child / next-sibling links. A walk goes down from the root: it tries the
children of a node in order and descends into the first accepted one. What differs is the trial:

accept_tree_greedy  the child's token is the target's argmax
accept_tree_delta   the coin is below the siblings' running sum of target probabilities
accept_chain        coin * draft probability < target probability

They have the laws of the engine's `verify_tree_greedy`, `verify_tree_delta_in_order`, and
`verify_sampled` (on a chain also `verify_tree_without_replacement`). The random numbers come from
the caller: coins[i] decides among the children of row i, finals[i] draws the last token at row i.
The walk is the sequential part and a kernel; drawing the last token is a few passes over one row
a request, which torch spreads over the card better than one program a request could.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kernels.runtime import uses_triton

try:
    import triton
    import triton.language as tl
except ImportError:  # there are no wheels outside Linux; torch does the walk there
    triton = None

GREEDY, DELTA, CHAIN = 0, 1, 2


class TreeLinks(NamedTuple):
    """The trees of a batch, end to end. Nodes of a request are counted from its root, -1 is none.

    token_ids     [total_nodes] int64; siblings hold different tokens
    first_child, next_sibling  [total_nodes] int32
    indptr        [batch + 1] int32, request b owns rows indptr[b] to indptr[b + 1]
    max_path_len  at least the longest path, in nodes
    """

    token_ids: Tensor
    first_child: Tensor
    next_sibling: Tensor
    indptr: Tensor
    max_path_len: int


class Acceptance(NamedTuple):
    """paths [batch, max_path_len] int32 nodes from the root on, -1 behind the end; path_lens
    [batch] int32, the tokens a request gains; next_tokens [batch] int64, the last one of them.
    A request without nodes is padding: length 0, token -1.
    """

    paths: Tensor
    path_lens: Tensor
    next_tokens: Tensor


class Walk(NamedTuple):
    """paths and path_lens as in Acceptance; tried_under [total_nodes] int32: the node below which a
    node was tried, -1 for nodes that the walk did not come to."""

    paths: Tensor
    path_lens: Tensor
    tried_under: Tensor


def walk_ref(
    links: TreeLinks, rule: int, target: Tensor, draft_probs: Tensor, coins: Tensor
) -> Walk:
    """Node by node. `target` is the argmax [total_nodes] for GREEDY, else [total_nodes, vocab]."""
    walk = _no_walk(links)
    bounds = links.indptr.tolist()
    for request, first in enumerate(bounds[:-1]):
        if bounds[request + 1] == first:
            continue
        path, running_sum = [0], 0.0
        child = int(links.first_child[first])
        while child >= 0:
            row, token = first + path[-1], int(links.token_ids[first + child])
            walk.tried_under[first + child] = path[-1]
            if rule == GREEDY:
                is_accepted = bool(token == target[row])
            elif rule == DELTA:
                running_sum += float(target[row, token])
                is_accepted = float(coins[row]) < running_sum
            else:
                is_accepted = bool(coins[row] * draft_probs[row, token] < target[row, token])
            if is_accepted:
                path.append(child)
                running_sum = 0.0
                child = int(links.first_child[first + child])
            else:
                child = int(links.next_sibling[first + child])
        walk.paths[request, : len(path)] = torch.tensor(path, dtype=torch.int32)
        walk.path_lens[request] = len(path)
    return walk


def _no_walk(links: TreeLinks) -> Walk:
    batch = links.indptr.shape[0] - 1
    return Walk(
        links.first_child.new_full((batch, links.max_path_len), -1),
        links.first_child.new_zeros(batch),
        torch.full_like(links.first_child, -1),
    )


if triton is not None:

    @triton.jit
    def walk_kernel(  # type: ignore[no-untyped-def]
        token_ids, first_child, next_sibling, indptr,
        target, draft_probs, coins,  # as in walk_ref
        paths, path_lens, tried_under,
        vocab_size, max_path_len,
        RULE: tl.constexpr,
    ):  # fmt: skip
        """One program: one request. One thread's work, a few numbers a node."""
        request = tl.program_id(0)
        first = tl.load(indptr + request)
        if tl.load(indptr + request + 1) == first:
            return
        path = paths + request * max_path_len
        node = first * 0  # of the type of a loaded int32, as a loop's variables keep their types
        length = node + 1
        running_sum = tl.load(coins + first) * 0
        tl.store(path, node)
        child = tl.load(first_child + first)
        while child >= 0:
            row = (first + node).to(tl.int64)
            token = tl.load(token_ids + first + child)
            tl.store(tried_under + first + child, node)
            if RULE == 0:
                is_accepted = token == tl.load(target + row)
            else:
                coin = tl.load(coins + row)
                probability = tl.load(target + row * vocab_size + token)
                running_sum += probability
                is_accepted = coin < running_sum
                if RULE == 2:
                    draft = tl.load(draft_probs + row * vocab_size + token)
                    is_accepted = coin * draft < probability
            if is_accepted:
                tl.store(path + length, child, mask=length < max_path_len)
                length += 1
                running_sum = running_sum * 0
                node = child
                child = tl.load(first_child + first + node)
            else:
                child = tl.load(next_sibling + first + child)
        tl.store(path_lens + request, length)


def accept_tree_greedy(target_token_ids: Tensor, links: TreeLinks) -> Acceptance:
    """Follow the target's argmax. target_token_ids [total_nodes] int64: the argmax after each node.

    Raises AssertionError on wrong shapes, dtypes or devices.
    """
    _check_links(links)
    assert target_token_ids.shape == links.token_ids.shape, "one argmax a node"
    assert target_token_ids.dtype == torch.int64, f"token ids are int64: {target_token_ids.dtype}"
    walk = _walk(links, GREEDY, target_token_ids, target_token_ids, target_token_ids)
    return _finish(walk, target_token_ids[_end_rows(walk, links)])


def accept_tree_delta(
    target_probs: Tensor, links: TreeLinks, coins: Tensor, finals: Tensor
) -> Acceptance:
    """Guesses without a law. Each child is accepted with its own target probability.

    target_probs [total_nodes, vocab] float32; coins and finals [total_nodes] float32, uniform in
    [0, 1). Raises AssertionError on wrong shapes, dtypes or devices.
    """
    _check_links(links, target_probs, coins, finals)
    walk = _walk(links, DELTA, target_probs, target_probs, coins)
    rows = _end_rows(walk, links)
    law = target_probs[rows]
    # All children of the path's end were tried below it and rejected; their tokens are gone.
    nodes = torch.arange(links.token_ids.shape[0], device=law.device)
    request = torch.bucketize(nodes, links.indptr[1:], right=True).clamp(max=len(rows) - 1)
    is_rejected = walk.tried_under == (rows - links.indptr[:-1])[request]
    gone = torch.zeros_like(law)
    gone.view(-1).scatter_add_(0, request * law.shape[1] + links.token_ids, is_rejected.float())
    return _finish(walk, _draw(law.masked_fill(gone > 0, 0), law, finals[rows]))


def accept_chain(
    target_probs: Tensor, draft_probs: Tensor, links: TreeLinks, coins: Tensor, finals: Tensor
) -> Acceptance:
    """Chains drawn from known laws: accept with min(1, target / draft), else draw the residual.

    draft_probs [total_nodes, vocab] float32: row i is the law that the child of node i was drawn
    from, rows of leaves are not read. The rest as for `accept_tree_delta`.
    """
    _check_links(links, target_probs, coins, finals)
    assert draft_probs.shape == target_probs.shape and draft_probs.dtype == target_probs.dtype
    walk = _walk(links, CHAIN, target_probs, draft_probs.contiguous(), coins)
    rows = _end_rows(walk, links)
    law, is_leaf = target_probs[rows], links.first_child[rows] < 0
    excess = (law - draft_probs[rows]).clamp(min=0)
    return _finish(walk, _draw(torch.where(is_leaf[:, None], law, excess), law, finals[rows]))


def _walk(links: TreeLinks, rule: int, target: Tensor, draft_probs: Tensor, coins: Tensor) -> Walk:
    if not uses_triton(target):
        return walk_ref(links, rule, target, draft_probs, coins)
    walk = _no_walk(links)
    vocab_size = 1 if rule == GREEDY else target.shape[1]
    walk_kernel[(walk.path_lens.shape[0],)](
        *links[:4], target, draft_probs, coins, *walk, vocab_size, links.max_path_len, rule
    )
    return walk


def _end_rows(walk: Walk, links: TreeLinks) -> Tensor:
    """Row of the last node of each path, [batch] int64; some valid row for padding."""
    last = (walk.path_lens - 1).clamp(min=0)[:, None].long()
    rows = links.indptr[:-1] + walk.paths.gather(1, last)[:, 0].clamp(min=0)
    return rows.long().clamp(max=links.token_ids.shape[0] - 1)


def _draw(law: Tensor, plain: Tensor, uniforms: Tensor) -> Tensor:
    """Inverse of the cumulative law, in float64 -> [batch] int64. Steps over probability zero.

    Where rounding rejected the last possible token nothing is left: the plain law is drawn.
    """
    law = torch.where(law.sum(-1, keepdim=True) > 0, law, plain)
    cumulative = law.double().cumsum(-1)
    threshold = uniforms.double()[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, threshold, right=True)[:, 0]


def _finish(walk: Walk, tokens: Tensor) -> Acceptance:
    return Acceptance(walk.paths, walk.path_lens, tokens.masked_fill(walk.path_lens == 0, -1))


def _check_links(links: TreeLinks, *floats: Tensor) -> None:
    total, device = links.token_ids.shape, links.token_ids.device
    assert links.token_ids.dtype == torch.int64, f"token ids are int64: {links.token_ids.dtype}"
    assert links.first_child.shape == links.next_sibling.shape == total, "two links a node"
    for tensor in links[1:4]:
        assert tensor.dtype == torch.int32, f"links and indptr are int32, not {tensor.dtype}"
    for tensor in (*links[:4], *floats):
        assert tensor.device == device and tensor.is_contiguous(), "one device, contiguous"
    if floats:
        probs, coins, finals = floats
        assert probs.dim() == 2 and probs.shape[:1] == total, "a law a node"
        assert coins.shape == finals.shape == total, "a coin and a final number a node"
        assert all(t.dtype == torch.float32 for t in floats), "laws and coins are float32"
