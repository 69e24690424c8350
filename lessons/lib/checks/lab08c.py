"""Lab 8C: does `rollback_tree_kv` plan a rollback that keeps the path and gives the rest back?

The plan is carried out here on a small model of the pool: a slot holds the name of what was
written to it. So what counts is what lies where in the end, not how the plan was made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lessons.lib.checks.asking import Question, Rejected, Submission, a_type, try_all

CELL = "rollback_tree_kv"
ROLLBACK = "rollback_tree_kv"
NUM_CASES, MAX_NODES, MAX_LENGTH, NUM_PAGES = 60, 16, 90, 200
PAGE_SIZES = (1, 2, 4, 16)

Moves = list[tuple[int, int]]
Plan = tuple[Moves, list[int], int]


@dataclass(frozen=True)
class Case:
    """A sequence of `length` live tokens, with `num_nodes` nodes written behind them."""

    table: list[int]
    length: int
    num_nodes: int
    path: list[int]
    page_size: int

    @property
    def arguments(self) -> tuple[list[int], int, int, list[int], int]:
        """As `rollback_tree_kv` takes them."""
        return list(self.table), self.length, self.num_nodes, list(self.path), self.page_size

    def slot(self, position: int) -> int:
        """Where a position of the sequence lies."""
        block, offset = divmod(position, self.page_size)
        return self.table[block] * self.page_size + offset

    @property
    def new_length(self) -> int:
        """Live tokens after the round."""
        return self.length + len(self.path)

    @property
    def idle_pages(self) -> list[int]:
        """Pages without a live token after the round."""
        return self.table[-(-self.new_length // self.page_size) :]


def plan_of(ask: Question, case: Case) -> Plan:
    """What `rollback_tree_kv` returned, checked against its contract. Raises Rejected."""
    value = ask.call(ROLLBACK, *case.arguments).value
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise Rejected(
            f"{ROLLBACK} returned {a_type(value)}, not a triple (moves, pages_back, new_length)"
        )
    moves, pages_back, new_length = value
    return as_moves(moves), as_pages(pages_back), as_count(new_length)


def as_moves(value: object) -> Moves:
    """Pairs of slots. Raises Rejected."""
    if not isinstance(value, list | tuple):
        raise Rejected(f"moves is {a_type(value)}, not a list of pairs (source, target)")
    for pair in value:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise Rejected("moves holds something that is not a pair (source, target)")
        if any(isinstance(slot, bool) or not isinstance(slot, int) for slot in pair):
            raise Rejected("moves holds a slot that is not a whole number")
    return [(source, target) for source, target in value]


def as_pages(value: object) -> list[int]:
    """Whole numbers. Raises Rejected."""
    if not isinstance(value, list | tuple):
        raise Rejected(f"pages_back is {a_type(value)}, not a list of pages")
    if any(isinstance(page, bool) or not isinstance(page, int) for page in value):
        raise Rejected("pages_back holds something that is not a whole number")
    return list(value)


def as_count(value: object) -> int:
    """A whole number. Raises Rejected."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Rejected(f"new_length is {a_type(value)}, not a whole number")
    return value


def cases(rng: random.Random) -> Iterator[Case]:
    """Trees of all kinds behind sequences of all lengths, on pages in no order."""
    for number in range(NUM_CASES):
        page_size = PAGE_SIZES[number % len(PAGE_SIZES)]
        yield random_case(rng, page_size, rng.randint(1, MAX_NODES))
    # The page boundary itself: the path ends exactly on it, or one token behind it.
    for page_size in (2, 4, 16):
        for extra in (0, 1):
            num_nodes, path = 9, [0, 3, 5, 8][: 2 + extra]
            length = 3 * page_size - len(path) + extra
            yield _placed(rng, length, num_nodes, path, page_size)


def random_case(rng: random.Random, page_size: int, num_nodes: int) -> Case:
    """A random tree with a random path from its root, which may be empty or the whole chain."""
    parents = [-1, *(rng.randrange(max(0, node - 4), node) for node in range(1, num_nodes))]
    if rng.random() < 0.2:
        parents = list(range(-1, num_nodes - 1))
    path, node = [], rng.randrange(num_nodes)
    while node != -1:
        path.append(node)
        node = parents[node]
    path.reverse()
    kept = path[: rng.randint(0, len(path))] if rng.random() < 0.3 else path
    return _placed(rng, rng.randint(0, MAX_LENGTH), num_nodes, kept, page_size)


def _placed(
    rng: random.Random, length: int, num_nodes: int, path: list[int], page_size: int
) -> Case:
    num_blocks = -(-(length + num_nodes) // page_size)
    return Case(rng.sample(range(NUM_PAGES), num_blocks), length, num_nodes, path, page_size)


# moves


def check_moves(submission: Submission) -> str:
    """After the moves the accepted path lies behind the live tokens, and nothing else changed."""
    ask = submission.ask(CELL)
    for case in cases(submission.rng):
        moves, _, new_length = plan_of(ask, case)
        if new_length != case.new_length:
            raise Rejected(_why_length(case, new_length))
        _judge_moves(case, moves)
    return "the accepted path lies behind the live tokens, moved in a safe order"


def _why_length(case: Case, new_length: int) -> str:
    if new_length == case.length + case.num_nodes:
        return "new_length counts the rejected nodes as live tokens"
    if new_length == case.length:
        return "new_length does not grow by the accepted path"
    return "new_length is length plus the number of accepted nodes"


def _judge_moves(case: Case, moves: Moves) -> None:
    own = {case.slot(case.length + node): node for node in range(case.num_nodes)}
    live = {case.slot(position) for position in range(case.length)}
    for source, target in moves:
        if target in live:
            raise Rejected("a move overwrites a live token")
        if source not in own or target not in own:
            raise Rejected(_why_foreign(case, moves))
    wanted = {case.slot(case.length + place): node for place, node in enumerate(case.path)}
    held = dict(own)
    for source, target in moves:
        held[target] = held[source]
    if any(held[slot] != node for slot, node in wanted.items()):
        at_once = own | {target: own[source] for source, target in moves}
        if all(at_once[slot] == node for slot, node in wanted.items()):
            raise Rejected("a move overwrites a node that a later move still reads: mind the order")
        raise Rejected("after the moves the accepted nodes do not stand behind the live tokens")
    needed = sum(place != node for place, node in enumerate(case.path))
    if len(moves) > needed:
        raise Rejected("a node that stands where it belongs, or that was rejected, is copied")


def _why_foreign(case: Case, moves: Moves) -> str:
    right = {
        (case.length + node, case.length + place)
        for place, node in enumerate(case.path)
        if node != place
    }
    if moves and set(moves) == right:
        return "moves holds positions; a slot is page * page_size + offset in the page"
    return "a move leaves the slots of this tree: look the page up in block_table"


# pages


def check_pages(submission: Submission) -> str:
    """Exactly the pages without a live token go back, each once."""
    ask = submission.ask(CELL)
    for case in cases(submission.rng):
        _, pages_back, _ = plan_of(ask, case)
        if len(set(pages_back)) < len(pages_back):
            raise Rejected("a page is given back twice")
        given, idle = set(pages_back), set(case.idle_pages)
        if given - set(case.table):
            raise Rejected("a page is given back that this sequence does not hold")
        if given - idle:
            raise Rejected("a page is given back although live tokens lie in it")
        if idle - given:
            raise Rejected(_why_kept(case, given))
    return "exactly the pages without a live token go back"


def _why_kept(case: Case, given: set[int]) -> str:
    if not given:
        return "pages that hold rejected nodes only are never given back: a leak"
    return "a page without a live token stays with the sequence: a leak, one page at a time"


# boundary


def check_boundary(submission: Submission) -> str:
    """Edges of the contract; one rejection names all that failed."""
    ask, rng = submission.ask(CELL), submission.rng
    parts = (_nothing_stays, _all_stays, _refuses, _changes_no_input, _has_no_memory)
    try_all(parts, ask, rng)
    return "an empty path, a whole chain and impossible paths are handled"


def _nothing_stays(ask: Question, rng: random.Random) -> None:
    for length in (0, rng.randint(1, MAX_LENGTH)):
        case = _placed(rng, length, 8, [], 4)
        moves, pages_back, new_length = plan_of(ask, case)
        if moves or sorted(pages_back) != sorted(case.idle_pages) or new_length != length:
            raise Rejected("where nothing is accepted nothing moves and the length stays")


def _all_stays(ask: Question, rng: random.Random) -> None:
    case = _placed(rng, rng.randint(1, MAX_LENGTH), 6, list(range(6)), 4)
    if plan_of(ask, case) != ([], [], case.length + 6):
        raise Rejected("where a whole chain is accepted nothing moves and nothing goes back")


def _refuses(ask: Question, rng: random.Random) -> None:
    table = rng.sample(range(NUM_PAGES), 4)
    bad = {
        "a node outside the tree": (table, 9, 5, [0, 5], 4),
        "a path that does not go up": (table, 9, 5, [0, 3, 2], 4),
        "a node that occurs twice": (table, 9, 5, [0, 2, 2], 4),
        "a negative node": (table, 9, 5, [-1, 2], 4),
        "a table too short for the tree": (table[:3], 9, 5, [0, 2], 4),
    }
    for what, arguments in bad.items():
        ask.must_refuse(ROLLBACK, what, *arguments)


def _changes_no_input(ask: Question, rng: random.Random) -> None:
    case = _placed(rng, 10, 7, [0, 2, 6], 4)
    if ask.call(ROLLBACK, *case.arguments).args != case.arguments:
        raise Rejected(f"{ROLLBACK} changes the lists that it is given; the pool does that")


def _has_no_memory(ask: Question, rng: random.Random) -> None:
    some = [random_case(rng, 4, 8) for _ in range(6)]
    first = [plan_of(ask, case) for case in some]
    if [plan_of(ask, case) for case in reversed(some)] != first[::-1]:
        raise Rejected(f"{ROLLBACK} gives another answer to the same question after other calls")


CHECKS: dict[str, Callable[[Submission], str]] = {
    "moves": check_moves,
    "pages": check_pages,
    "boundary": check_boundary,
}
