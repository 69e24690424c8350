"""The best draft tree of a given size, and the best size for a machine.

The tree model of Sequoia (arXiv 2402.12374, tree construction): the j-th child of an accepted node
is accepted with probability p_j, whatever the context, and at most one child is. A tree then yields
sum over its nodes of P(v), the product of p along the path to v, with P(root) = 1: the root stands
for the bonus or recovered token, so values here are tokens per round and sizes count the root.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count

from kernels.runtime import InputError


@dataclass(frozen=True)
class TreeShape:
    """Nodes in the order in which they were added; node 0 is the root.

    parents[v] < v, and -1 for the root; ranks[v] tells which child of its parent v is (0 first);
    path_probs[v] is P(v).
    """

    parents: tuple[int, ...]
    ranks: tuple[int, ...]
    path_probs: tuple[float, ...]

    @property
    def tokens(self) -> float:
        """Expected tokens per round."""
        return math.fsum(self.path_probs)

    @property
    def depth(self) -> int:
        """Drafts on the longest path."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        return max(depths)


def tree_values(
    child_probs: Sequence[float], max_nodes: int, max_depth: int | None = None
) -> list[float]:
    """Most expected tokens of trees with 1 .. max_nodes nodes, by dynamic programming.

    Sequoia's c(n), or c(n, d) where max_depth bounds the drafts on a path (arXiv 2402.12374, tree
    construction): c(n) = 1 + sum of p_j * c(a_j) for the best split of n - 1 into a_1, a_2, ...
    Independent of `greedy_tree`, which finds the same values faster.
    """
    _check(child_probs, max_nodes)
    limit = max_nodes - 1 if max_depth is None else max_depth

    @cache
    def value(nodes: int, depth: int) -> float:
        """A subtree with its root; 0 for no subtree."""
        return 1.0 + split(nodes - 1, 0, depth) if nodes else 0.0

    @cache
    def split(nodes: int, rank: int, depth: int) -> float:
        """At most `nodes` nodes over the children from `rank` on, `depth` levels left."""
        if nodes == 0 or depth == 0 or rank == len(child_probs):
            return 0.0
        return max(
            child_probs[rank] * value(mine, depth - 1) + split(nodes - mine, rank + 1, depth)
            for mine in range(nodes + 1)
        )

    return [value(nodes, min(limit, nodes - 1)) for nodes in range(1, max_nodes + 1)]


def greedy_tree(
    child_probs: Sequence[float], num_nodes: int, max_depth: int | None = None
) -> TreeShape:
    """The best tree of at most num_nodes nodes: always add the node of the largest path product.

    P never grows along a path, so the largest num_nodes products form a tree, and no tree of that
    size can sum to more (the argument of OPT-Tree, arXiv 2406.17276). O(n log n). Fewer nodes come
    back where max_depth leaves no room, or where all that could be added has probability 0.
    """
    _check(child_probs, num_nodes)
    order = count()  # on a tie the older candidate wins, and nothing else is compared
    waiting: list[tuple[float, int, int, int, int]] = [(-1.0, next(order), -1, 0, 0)]
    parents: list[int] = []
    ranks: list[int] = []
    products: list[float] = []
    while waiting and len(parents) < num_nodes:
        negative, _, parent, rank, depth = heapq.heappop(waiting)
        node = len(parents)
        parents.append(parent)
        ranks.append(rank)
        products.append(-negative)
        if max_depth is None or depth < max_depth:
            for child, probability in enumerate(child_probs):
                if probability:
                    product = negative * probability
                    heapq.heappush(waiting, (product, next(order), node, child, depth + 1))
    return TreeShape(tuple(parents), tuple(ranks), tuple(products))


@dataclass(frozen=True)
class TreeChoice:
    """A tree that was chosen for a machine, and its gain over plain decoding."""

    shape: TreeShape
    speedup: float


def best_tree(
    child_probs: Sequence[float],
    max_nodes: int,
    max_depth: int,
    step_ms: Callable[[int], float],
    draft_ms: Callable[[int], float],
    overhead_ms: float = 0.0,
) -> TreeChoice:
    """The size and depth of most tokens per ms: c(n, d) * t_1 / (t_n + T_draft(d) + overhead).

    The hardware-aware tree optimizer of arXiv 2402.12374, with the draft's time for its depth
    counted. step_ms(n): ms of a target step on n tokens of each request at the batch in question;
    draft_ms(d): ms to draft d levels. One node is plain decoding: no draft, no overhead, gain 1.0.
    """
    best = TreeChoice(greedy_tree(child_probs, 1), 1.0)
    for depth in range(1, max_depth + 1):
        for nodes in range(2, max_nodes + 1):
            shape = greedy_tree(child_probs, nodes, depth)
            if shape.depth < depth or len(shape.parents) < nodes:
                continue  # the same tree as at a smaller depth or size
            round_ms = step_ms(nodes) + draft_ms(depth) + overhead_ms
            speedup = shape.tokens * step_ms(1) / round_ms
            if speedup > best.speedup:
                best = TreeChoice(shape, speedup)
    return best


def _check(child_probs: Sequence[float], num_nodes: int) -> None:
    if num_nodes < 1:
        raise InputError(f"a tree has at least its root, got {num_nodes} nodes")
    if any(not 0 <= p <= 1 for p in child_probs) or math.fsum(child_probs) > 1 + 1e-9:
        raise InputError("acceptance of children must be 0 or more and sum to at most 1")
