"""The draft tree: which guessed token continues which.

Node 0 is the root: the last token that was emitted (the bonus token of the previous round). It is
certain, but its KV is not written yet, so the verify forward runs it together with the guesses.
Every other node is a guess; its parent stands before it in the list. A chain is the tree in which
every node has the one before it as its parent.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

WORD_BITS = 64
NO_NODE = -1


class TreeError(ValueError):
    """A tree or a mask that cannot be verified; the message names the node."""


@dataclass(frozen=True)
class DraftTree:
    """A draft tree of one request. `parent_ids[0] == -1`; else `0 <= parent_ids[i] < i`.

    Siblings hold different tokens: a token tried twice would be counted twice.

    Raises TreeError where the lists do not describe such a tree.
    """

    token_ids: tuple[int, ...]
    parent_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.token_ids) != len(self.parent_ids):
            raise TreeError(
                f"tree: {len(self.token_ids)} token_ids but {len(self.parent_ids)} parent_ids; "
                "give one parent for each token"
            )
        if not self.token_ids:
            raise TreeError("tree: no nodes; a tree has at least its root, the last emitted token")
        for node, (token, parent) in enumerate(zip(self.token_ids, self.parent_ids, strict=True)):
            if token < 0:
                raise TreeError(f"tree: node {node} has token id {token}; ids start at 0")
            if node == 0 and parent != NO_NODE:
                raise TreeError(f"tree: node 0 is the root, so its parent is -1, not {parent}")
            if node > 0 and not 0 <= parent < node:
                raise TreeError(
                    f"tree: node {node} has parent {parent}; a parent stands before its child "
                    f"(0 to {node - 1})"
                )
        for siblings in self.children:
            tokens = [self.token_ids[node] for node in siblings]
            if len(set(tokens)) < len(tokens):
                raise TreeError(
                    f"tree: nodes {siblings} are siblings, but their tokens {tokens} "
                    "are not all different; merge those that are equal"
                )

    @classmethod
    def chain(cls, token_ids: Sequence[int]) -> "DraftTree":
        """The chain root, guess, guess, ... of `token_ids` (the root's token first)."""
        return cls(tuple(token_ids), tuple(range(NO_NODE, len(token_ids) - 1)))

    @classmethod
    def from_draft(
        cls, root_token: int, token_ids: Sequence[int], parent_ids: Sequence[int]
    ) -> "DraftTree":
        """A tree from the guesses alone, numbered from 0; parent -1 means child of the root."""
        parents = (NO_NODE, *(parent + 1 for parent in parent_ids))
        return cls((root_token, *token_ids), parents)

    @property
    def num_nodes(self) -> int:
        """Nodes with the root: the rows of the verify forward."""
        return len(self.token_ids)

    @property
    def num_draft_tokens(self) -> int:
        """Guesses: nodes without the root."""
        return self.num_nodes - 1

    @property
    def is_chain(self) -> bool:
        """Whether no node has two children."""
        return all(len(nodes) <= 1 for nodes in self.children)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Edges between the root and each node."""
        depths: list[int] = []
        for parent in self.parent_ids:
            depths.append(0 if parent == NO_NODE else depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of each node, in the order in which an acceptance rule tries them."""
        children: list[list[int]] = [[] for _ in self.token_ids]
        for node, parent in enumerate(self.parent_ids[1:], start=1):
            children[parent].append(node)
        return tuple(tuple(nodes) for nodes in children)

    @cached_property
    def first_child(self) -> tuple[int, ...]:
        """First child of each node, -1 for a leaf: with `next_sibling`, the links of a kernel."""
        return tuple(nodes[0] if nodes else NO_NODE for nodes in self.children)

    @cached_property
    def next_sibling(self) -> tuple[int, ...]:
        """The sibling tried after each node, -1 for the last one."""
        links = [NO_NODE] * self.num_nodes
        for nodes in self.children:
            for node, sibling in pairwise(nodes):
                links[node] = sibling
        return tuple(links)

    def path(self, node: int) -> tuple[int, ...]:
        """Nodes from the root to `node`, both included."""
        nodes = [node]
        while self.parent_ids[nodes[-1]] != NO_NODE:
            nodes.append(self.parent_ids[nodes[-1]])
        return tuple(reversed(nodes))

    def positions(self, context_len: int) -> Tensor:
        """Positions [num_nodes] int64 after `context_len` committed tokens; siblings share one."""
        return torch.tensor(self.depths) + context_len

    def ancestor_mask(self, context_len: int = 0) -> Tensor:
        """Visibility [num_nodes, context_len + num_nodes] bool: the prefix, ancestors and self."""
        mask = torch.zeros(self.num_nodes, context_len + self.num_nodes, dtype=torch.bool)
        mask[:, :context_len] = True
        for node in range(self.num_nodes):
            mask[node, [context_len + ancestor for ancestor in self.path(node)]] = True
        return mask

    def packed_mask(self, num_words: int | None = None) -> Tensor:
        """The mask without the prefix as bits [num_nodes, num_words] int64 for a kernel.

        Bit `b` of word `w` of row `i` says whether node `i` sees node `64 * w + b`.
        """
        rows: list[int] = []
        for node, parent in enumerate(self.parent_ids):
            rows.append((rows[parent] if parent != NO_NODE else 0) | 1 << node)
        return pack_rows(rows, num_words)


def words_for(num_nodes: int) -> int:
    """Words of 64 bits that hold one bit for each of `num_nodes` nodes."""
    return -(-num_nodes // WORD_BITS)


def pack_rows(rows: Sequence[int], num_words: int | None = None) -> Tensor:
    """The rows of a tree's mask as [num_nodes, num_words] int64; bit `b` of a row says whether it
    sees node `b`. num_words: as many as the nodes need where None."""
    needed = words_for(len(rows))
    num_words = needed if num_words is None else num_words
    if num_words < needed:
        raise TreeError(f"tree: {len(rows)} nodes need {needed} words, not {num_words}")
    return torch.tensor([_signed_words(row, num_words) for row in rows], dtype=torch.int64)


def _signed_words(bits: int, num_words: int) -> list[int]:
    words = [bits >> (WORD_BITS * word) & (1 << WORD_BITS) - 1 for word in range(num_words)]
    return [word - (1 << WORD_BITS) if word >> (WORD_BITS - 1) else word for word in words]


def check_mask(tree: DraftTree, mask: Tensor, context_len: int = 0) -> None:
    """Raise TreeError unless `mask` is the transitive closure of `parent_ids` after the prefix.

    `mask` [num_nodes, context_len + num_nodes] bool. The closure is computed here by matrix
    products, independently of `ancestor_mask`.
    """
    expected_shape = (tree.num_nodes, context_len + tree.num_nodes)
    if mask.shape != expected_shape:
        raise TreeError(f"mask: shape {tuple(mask.shape)}, expected {expected_shape}")
    if not mask[:, :context_len].all():
        node, slot = (~mask[:, :context_len]).nonzero()[0].tolist()
        raise TreeError(f"mask: node {node} does not see committed token {slot}")
    expected = _transitive_closure(tree)
    wrong = (mask[:, context_len:].cpu() != expected).nonzero()
    if len(wrong):
        node, other = wrong[0].tolist()
        what = "does not see its ancestor" if expected[node, other] else "sees its non-ancestor"
        raise TreeError(f"mask: node {node} {what} {other}")


def _transitive_closure(tree: DraftTree) -> Tensor:
    reach = torch.eye(tree.num_nodes)
    for node, parent in enumerate(tree.parent_ids[1:], start=1):
        reach[node, parent] = 1
    for _ in range(tree.num_nodes.bit_length()):
        reach = (reach @ reach).clamp(max=1)
    return reach.bool()


@dataclass(frozen=True)
class TreeBatch:
    """The trees of a batch, ragged: request `b` owns rows `qo_indptr[b]` to `qo_indptr[b + 1]`.

    token_ids, positions [total_nodes] int64; qo_indptr [batch + 1] int32; mask_bits
    [total_nodes, words] int64; first_child, next_sibling [total_nodes] int32, counted from the
    request's own root, -1 for none; max_query_len nodes of the largest tree, max_path_len of the
    longest path.
    """

    token_ids: Tensor
    positions: Tensor
    qo_indptr: Tensor
    mask_bits: Tensor
    first_child: Tensor
    next_sibling: Tensor
    max_query_len: int
    max_path_len: int


def batch_trees(
    trees: Sequence[DraftTree], context_lens: Sequence[int], device: torch.device | str = "cpu"
) -> TreeBatch:
    """Lay the trees of a batch end to end; `context_lens` are the committed tokens with KV."""
    if len(trees) != len(context_lens) or not trees:
        raise TreeError(f"batch: {len(trees)} trees and {len(context_lens)} context_lens")
    sizes = torch.tensor([tree.num_nodes for tree in trees])
    largest = int(sizes.max())
    words = words_for(largest)
    links = [
        torch.tensor([link for tree in trees for link in getattr(tree, name)], dtype=torch.int32)
        for name in ("first_child", "next_sibling")
    ]
    positions = [tree.positions(n) for tree, n in zip(trees, context_lens, strict=True)]
    return TreeBatch(
        token_ids=torch.tensor([t for tree in trees for t in tree.token_ids]).to(device),
        positions=torch.cat(positions).to(device),
        qo_indptr=torch.nn.functional.pad(sizes.cumsum(0), (1, 0)).int().to(device),
        mask_bits=torch.cat([tree.packed_mask(words) for tree in trees]).to(device),
        first_child=links[0].to(device),
        next_sibling=links[1].to(device),
        max_query_len=largest,
        max_path_len=1 + max(max(tree.depths) for tree in trees),
    )


def random_tree(num_nodes: int, vocab_size: int, rng: random.Random) -> DraftTree:
    """A random tree whose siblings hold different tokens (needs `vocab_size >= 1`)."""
    tokens, parents = [rng.randrange(vocab_size)], [NO_NODE]
    unused: list[list[int]] = [rng.sample(range(vocab_size), vocab_size)]
    while len(tokens) < num_nodes:
        parent = rng.choice([node for node, left in enumerate(unused) if left])
        tokens.append(unused[parent].pop())
        parents.append(parent)
        unused.append(rng.sample(range(vocab_size), vocab_size))
    return DraftTree(tuple(tokens), tuple(parents))
