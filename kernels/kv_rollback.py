"""After verification: keep the accepted path, forget the rest of the tree.

`rollback_tree_kv` is this course's own function; neither SGLang 0.5.18 nor vLLM 0.27.1 has one
of that name, and neither gives pages back each round. Three policies, selected on the pool:

RETURN_PAGES (ours)   The accepted path is moved to be contiguous and the pages behind it go back
                      to the pool. Costs one small copy a round, allocator work a round, and pages
                      that are taken again a moment later. Gains: a sequence never holds a page
                      it does not use, so free memory is what it seems and admission is simple.
COMPACT_REUSE         As SGLang: `move_accept_tokens_to_target_kvcache` copies the accepted path
                      to the front (skipped for a chain, where it already lies there), nothing is
                      freed, the tail serves the next round, and all of it is freed when the
                      request ends. Costs the same copy, and each sequence holds pages for one
                      tree beyond its length (SGLang: for two, its host learns of a length one
                      step late); the classic leak is to lose count of that tail.
COUNTER               As vLLM, which drafts chains only: slots for the drafts are allocated with
                      the step, the computed-token counter is lowered by the number of rejected
                      tokens, the slots are overwritten in the next step. No copy at all. Costs
                      the tail as above, and it cannot express a tree: a path that skips a node
                      is not a prefix, and a counter cannot say so.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from kernels.kv_pool import KVPool, RollbackPolicy, SequenceKV


class HasNodes(Protocol):
    """What rollback needs of a draft tree: node i was written to the i-th reserved slot."""

    @property
    def num_nodes(self) -> int: ...


# What `rollback_trees_kv` does, in another way.
RollbackBatch = Callable[[KVPool, Sequence[tuple[SequenceKV, HasNodes, Sequence[int]]]], None]


def rollback_tree_kv(
    pool: KVPool, sequence: SequenceKV, tree: HasNodes, accepted_path: Sequence[int]
) -> None:
    """Make the accepted nodes the sequence's next live tokens and give up the others.

    What SGLang and vLLM do instead, and what each way costs, stands at the top of this module.

    accepted_path: node indices, increasing (ancestors come before descendants); may be empty.
    Afterwards sequence.length has grown by len(accepted_path) and nothing is reserved.
    Raises ValueError, pool unchanged, for a path outside the tree or one the policy cannot keep.
    """
    rollback_trees_kv(pool, [(sequence, tree, accepted_path)])


def rollback_trees_kv(
    pool: KVPool, batch: Sequence[tuple[SequenceKV, HasNodes, Sequence[int]]]
) -> None:
    """`rollback_tree_kv` for (sequence, tree, accepted_path) of a whole batch with one move."""
    for sequence, tree, path in batch:
        _check_path(pool.policy, sequence, tree.num_nodes, path)
    pool.counters.moved_bytes += pool.move([_moves(pool, s, path) for s, _, path in batch])
    for sequence, _, path in batch:
        pool.commit(sequence, len(path))


def _moves(pool: KVPool, sequence: SequenceKV, path: Sequence[int]) -> tuple[list[int], list[int]]:
    """Source and target slots in path order; nodes already in place (a chain) do not move."""
    moves = [(node, place) for place, node in enumerate(path) if node != place]
    sources = pool.slots(sequence, (sequence.length + node for node, _ in moves))
    targets = pool.slots(sequence, (sequence.length + place for _, place in moves))
    return sources, targets


def _check_path(
    policy: RollbackPolicy, sequence: SequenceKV, num_nodes: int, path: Sequence[int]
) -> None:
    if num_nodes != sequence.num_reserved:
        raise ValueError(f"tree has {num_nodes} nodes, {sequence.num_reserved} slots are reserved")
    bounds = [-1, *path, num_nodes]
    if any(left >= right for left, right in zip(bounds, bounds[1:], strict=False)):
        raise ValueError(f"accepted_path {list(path)}: must increase within 0..{num_nodes - 1}")
    if policy is RollbackPolicy.COUNTER and list(path) != list(range(len(path))):
        raise ValueError(f"accepted_path {list(path)}: COUNTER keeps only a prefix 0, 1, ...")
