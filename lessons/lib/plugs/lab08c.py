"""Lab 8C: the KV pool gives pages back by a student's plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernels.kv_pool import KVPool, SequenceKV
from kernels.kv_rollback import HasNodes, RollbackBatch
from kernels.runtime import InputError

# (block_table, length, num_nodes, accepted_path, page_size) -> (moves, pages_back, new_length)
Plan = tuple[Sequence[tuple[int, int]], Sequence[int], int]
PlanRollback = Callable[[list[int], int, int, list[int], int], Plan]


def rollback_rule(plan_rollback: PlanRollback) -> RollbackBatch:
    """A rule for `Engine(rollback=…)` and `KVSoak` that carries out the plan, move by move.

    What the plan forgets or counts twice shows in `check_integrity` and in the KV. Raises
    InputError for a plan that is none, or that touches slots of anything but this tree.
    """

    def rule(pool: KVPool, batch: Sequence[tuple[SequenceKV, HasNodes, Sequence[int]]]) -> None:
        for sequence, tree, path in batch:
            table, num_nodes = list(sequence.block_table), tree.num_nodes
            answer = plan_rollback(table, sequence.length, num_nodes, list(path), pool.page_size)
            moves, pages_back, new_length = checked(answer)
            ends = range(sequence.length, sequence.length + num_nodes)
            reserved = set(pool.slots(sequence, ends))
            for source, target in moves:
                if source not in reserved or target not in reserved:
                    raise InputError(f"the move {source} -> {target} leaves this tree's slots")
                pool.counters.moved_bytes += pool.move([([source], [target])])
            if set(pages_back) - set(table):
                raise InputError(f"pages_back {pages_back} names a page of another sequence")
            pool.allocator.release(pages_back)
            pool.counters.pages_returned += len(pages_back)
            sequence.block_table[:] = [page for page in table if page not in pages_back]
            sequence.length, sequence.num_reserved = new_length, 0

    return rule


def checked(answer: Any) -> tuple[list[tuple[int, int]], list[int], int]:
    """(moves, pages_back, new_length) in the contract's shape. Raises InputError."""
    try:
        moves, pages_back, new_length = answer
        pairs = [(int(source), int(target)) for source, target in moves]
        return pairs, [int(page) for page in pages_back], int(new_length)
    except (TypeError, ValueError) as error:
        raise InputError(
            "rollback_tree_kv must return (moves, pages_back, new_length), moves as pairs of slots"
        ) from error
