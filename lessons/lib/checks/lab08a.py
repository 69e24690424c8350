"""Lab 8A: does `tree_layout` put every node where it belongs and show it its ancestors alone?

The reference walks from each node to the root, which is slow and plain to see.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from lessons.lib.checks.asking import Question, Rejected, Submission, a_type, try_all

CELL = "tree_layout"
LAYOUT = "tree_layout"
NUM_TREES, MAX_NODES, MAX_CONTEXT = 24, 40, 500

Mask = list[list[bool]]


def layout(ask: Question, parents: Sequence[int], context_len: int) -> tuple[list[int], Mask]:
    """What `tree_layout` returned, checked against its contract. Raises Rejected."""
    value = ask.call(LAYOUT, list(parents), context_len).value
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Rejected(f"{LAYOUT} returned {a_type(value)}, not a pair (positions, mask)")
    return as_positions(value[0], len(parents)), as_mask(value[1], len(parents), context_len)


def as_positions(value: object, num_nodes: int) -> list[int]:
    """So many whole numbers. Raises Rejected."""
    if not isinstance(value, list | tuple):
        raise Rejected(f"positions is {a_type(value)}, not a list of {num_nodes} whole numbers")
    if len(value) != num_nodes:
        raise Rejected(f"positions holds {len(value)} numbers, expected {num_nodes}, one a node")
    if any(isinstance(place, bool) or not isinstance(place, int) for place in value):
        raise Rejected("positions holds something that is not a whole number")
    return list(value)


def as_mask(value: object, num_nodes: int, context_len: int) -> Mask:
    """So many rows of so many truth values; 0 and 1 will do. Raises Rejected."""
    shape = f"{num_nodes} rows of {num_nodes} entries"
    if not isinstance(value, list | tuple):
        raise Rejected(f"mask is {a_type(value)}, not {shape}")
    if len(value) != num_nodes:
        raise Rejected(f"mask has {len(value)} rows, expected {num_nodes}, one a node")
    for number, row in enumerate(value):
        if not isinstance(row, list | tuple):
            raise Rejected(f"row {number} of mask is {a_type(row)}, not a list")
        if len(row) == num_nodes + context_len and context_len:
            raise Rejected(f"mask must leave the committed prefix out: expected {shape}")
        if len(row) != num_nodes:
            raise Rejected(f"row {number} of mask holds {len(row)} entries, expected {num_nodes}")
        if any(entry not in (0, 1) for entry in row):
            raise Rejected(f"row {number} of mask holds something that is not True or False")
    return [[bool(entry) for entry in row] for row in value]


def path_to_root(parents: Sequence[int], node: int) -> list[int]:
    """The node, its parent, and so on up to the root."""
    nodes = [node]
    while parents[nodes[-1]] != -1:
        nodes.append(parents[nodes[-1]])
    return nodes


def right_positions(parents: Sequence[int], context_len: int) -> list[int]:
    """Behind the context, as many places as there are edges to the root."""
    return [context_len + len(path_to_root(parents, node)) - 1 for node in range(len(parents))]


def right_mask(parents: Sequence[int]) -> Mask:
    """A node sees the nodes on its own path."""
    paths = [set(path_to_root(parents, node)) for node in range(len(parents))]
    return [[other in path for other in range(len(parents))] for path in paths]


def trees(rng: random.Random) -> Iterator[tuple[list[int], int]]:
    """(parent_ids, context_len): random trees from bushy to deep, a star, a chain."""
    yield [-1, *[0] * rng.randint(3, 6)], rng.randint(1, MAX_CONTEXT)
    yield list(range(-1, rng.randint(3, 8))), rng.randint(1, MAX_CONTEXT)
    for number in range(NUM_TREES):
        reach = (MAX_NODES, 6, 3)[number % 3]  # how far back a parent may stand: bushy to deep
        parents = [-1]
        for node in range(1, rng.randint(6, MAX_NODES)):
            parents.append(rng.randint(max(0, node - reach), node - 1))
        yield parents, rng.randint(1, MAX_CONTEXT)


# positions


# What a position could be taken for: (parents, context_len, node) -> position.
MISTAKEN_POSITIONS: tuple[tuple[Callable[[Sequence[int], int, int], int], str], ...] = (
    (
        lambda parents, context, node: context + node,
        "a position is a place in the text, not in the list of nodes: siblings share one",
    ),
    (
        lambda parents, context, node: len(path_to_root(parents, node)) - 1,
        "the committed tokens stand before the root and count too",
    ),
    (
        lambda parents, context, node: context + len(path_to_root(parents, node)),
        "the root stands at context_len, since positions start at 0",
    ),
    (
        lambda parents, context, node: context + len(path_to_root(parents, node)) - 2,
        "the root has no KV yet: it stands behind the context, at context_len",
    ),
    (
        lambda parents, context, node: context + parents[node] + 1,
        "the parent's number is not the parent's position",
    ),
    (lambda parents, context, node: context, "a child stands one place behind its parent"),
)


def check_positions(submission: Submission) -> str:
    """Where the nodes stand in the text."""
    ask, seen = submission.ask(CELL), []
    for parents, context_len in trees(submission.rng):
        seen.append((parents, context_len, layout(ask, parents, context_len)[0]))
    if all(got == right_positions(parents, context) for parents, context, got in seen):
        return "every node stands at context_len plus its distance from the root"
    for mistaken, sentence in MISTAKEN_POSITIONS:
        if all(
            got == [mistaken(parents, context, node) for node in range(len(parents))]
            for parents, context, got in seen
        ):
            raise Rejected(sentence)
    raise Rejected("a node stands as many places behind the root as there are edges between them")


# mask


# What could decide whether a node sees another one: (parents, node, other) -> bool.
MISTAKEN_MASKS: tuple[tuple[Callable[[Sequence[int], int, int], bool], str], ...] = (
    (
        lambda parents, node, other: other <= node,
        "a causal mask in the order of the list shows a node its siblings and cousins",
    ),
    (
        lambda parents, node, other: other in path_to_root(parents, node)[1:],
        "a node attends to itself too",
    ),
    (
        lambda parents, node, other: node in path_to_root(parents, other),
        "the mask is turned round: row i holds what node i sees, which is what stands before it",
    ),
    (
        lambda parents, node, other: other in path_to_root(parents, node)[:2],
        "a node attends to all its ancestors, not to its parent alone",
    ),
    (lambda parents, node, other: other == node, "a node attends to its ancestors too"),
    (
        lambda parents, node, other: other != 0 and other in path_to_root(parents, node),
        "the root is an ancestor of every node",
    ),
    (lambda parents, node, other: True, "every node sees every other one"),
    (
        lambda parents, node, other: (
            other == node or len(path_to_root(parents, other)) < len(path_to_root(parents, node))
        ),
        "what stands at an earlier position may still be on another branch",
    ),
    (
        lambda parents, node, other: (
            other in path_to_root(parents, node) or parents[other] == parents[node]
        ),
        "a node must not see its siblings",
    ),
)


def check_mask(submission: Submission) -> str:
    """Which nodes see which."""
    ask, seen = submission.ask(CELL), []
    for parents, context_len in trees(submission.rng):
        seen.append((parents, layout(ask, parents, context_len)[1]))
    wrong = [(parents, got) for parents, got in seen if got != right_mask(parents)]
    if not wrong:
        return "every node sees itself, its ancestors and nothing else"
    for mistaken, sentence in MISTAKEN_MASKS:
        if all(got == _mask_by(mistaken, parents) for parents, got in seen):
            raise Rejected(sentence)
    raise Rejected(_first_difference(*wrong[0]))


def _mask_by(rule: Callable[[Sequence[int], int, int], bool], parents: Sequence[int]) -> Mask:
    nodes = range(len(parents))
    return [[rule(parents, node, other) for other in nodes] for node in nodes]


def _first_difference(parents: Sequence[int], got: Mask) -> str:
    for row, right in zip(got, right_mask(parents), strict=True):
        for sees, should in zip(row, right, strict=True):
            if sees and not should:
                return "some node sees one that is neither itself nor an ancestor"
            if should and not sees:
                return "some node does not see itself or one of its ancestors"
    raise AssertionError("the masks are equal")


# boundary


def check_boundary(submission: Submission) -> str:
    """Edges of the contract; one rejection names all that failed."""
    ask, rng = submission.ask(CELL), submission.rng
    parts = (_root_alone, _no_context, _deep_chain, _refuses, _changes_no_input, _has_no_memory)
    try_all(parts, ask, rng)
    return "a root alone, no context, a deep chain and impossible trees are handled"


def _root_alone(ask: Question, rng: random.Random) -> None:
    context_len = rng.randint(1, MAX_CONTEXT)
    if layout(ask, [-1], context_len) != ([context_len], [[True]]):
        raise Rejected("a root alone stands at context_len and sees itself")


def _no_context(ask: Question, rng: random.Random) -> None:
    parents = [-1, 0, 0, rng.randint(1, 2)]
    if layout(ask, parents, 0) != (right_positions(parents, 0), right_mask(parents)):
        raise Rejected("with no committed token the root stands at 0")


def _deep_chain(ask: Question, rng: random.Random) -> None:
    length, context_len = rng.randint(100, 130), rng.randint(1, MAX_CONTEXT)
    positions, mask = layout(ask, range(-1, length - 1), context_len)
    if positions != list(range(context_len, context_len + length)):
        raise Rejected("along a chain positions go up by one")
    if mask != [[other <= node for other in range(length)] for node in range(length)]:
        raise Rejected("along a chain the mask is the causal one")


def _refuses(ask: Question, rng: random.Random) -> None:
    later = rng.randint(3, 5)
    cases = {
        "a tree without nodes": ([], 4),
        "a root that has a parent": ([0, 0, 1], 4),
        "a second root": ([-1, 0, -1, 1], 4),
        "a parent below -1": ([-1, 0, -2], 4),
        "a node that is its own parent": ([-1, 0, 2], 4),
        "a parent that stands behind its child": ([-1, 0, later, *[1] * 4], 4),
        "a negative context_len": ([-1, 0], -1),
    }
    for what, arguments in cases.items():
        ask.must_refuse(LAYOUT, what, *arguments)


def _changes_no_input(ask: Question, rng: random.Random) -> None:
    given = ([-1, 0, 0, 1, 2, 2], rng.randint(1, MAX_CONTEXT))
    if ask.call(LAYOUT, *given).args != given:
        raise Rejected(f"{LAYOUT} changes the list that it is given")


def _has_no_memory(ask: Question, rng: random.Random) -> None:
    calls = list(trees(rng))[:5]
    calls += [(parents[::1], context + 1) for parents, context in calls[:2]]
    first = [layout(ask, *call) for call in calls]
    if [layout(ask, *call) for call in reversed(calls)] != first[::-1]:
        raise Rejected(f"{LAYOUT} gives another answer to the same question after other calls")


CHECKS: dict[str, Callable[[Submission], str]] = {
    "positions": check_positions,
    "mask": check_mask,
    "boundary": check_boundary,
}
