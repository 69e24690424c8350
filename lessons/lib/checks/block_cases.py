"""Lab 8F: passes over the blocks of some requests, and what `block_inputs` must say of them.

Of every row and column it is known who owns it; the right mask follows from that alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lessons.lib.checks.asking import Question, Rejected, a_type

INPUTS = "block_inputs"
NUM_CASES, MAX_CONTEXT, VOCAB = 24, 12, 1000
BLOCK_SIZES = (2, 3, 4, 5, 8, 16)

Mask = list[list[bool]]
Inputs = tuple[list[int], list[int], Mask]


@dataclass(frozen=True)
class Column:
    """A key of the pass: a context slot of a request, or a row of its block."""

    owner: int
    slot: int | None = None
    row: int | None = None


@dataclass(frozen=True)
class Case:
    """What a pass is asked for; as the arguments of `block_inputs`."""

    anchors: list[int]
    context_lens: list[int]
    num_slots: int
    block_size: int
    mask_token_id: int

    @property
    def arguments(self) -> tuple[list[int], list[int], int, int, int]:
        """In order, lists copied."""
        sizes = self.num_slots, self.block_size, self.mask_token_id
        return list(self.anchors), list(self.context_lens), *sizes

    @property
    def rows(self) -> list[tuple[int, int]]:
        """(request, place in its block), block after block."""
        return [(r, i) for r in range(len(self.anchors)) for i in range(self.block_size)]

    @property
    def columns(self) -> list[Column]:
        """All context slots, then all block rows."""
        requests = range(len(self.anchors))
        slots = [Column(r, slot=s) for r in requests for s in range(self.num_slots)]
        return slots + [Column(r, row=i) for r, i in self.rows]

    @property
    def token_ids(self) -> list[int]:
        """The right ones."""
        return [self.mask_token_id if i else self.anchors[r] for r, i in self.rows]

    @property
    def positions(self) -> list[int]:
        """The right ones."""
        return [self.context_lens[r] + i for r, i in self.rows]

    @property
    def right(self) -> list[object]:
        """All three."""
        return [self.token_ids, self.positions, self.mask_by(sees_rightly)]

    def mask_by(self, sees: Sees) -> Mask:
        """By a rule for a row and a column."""
        return [[sees(self, r, i, column) for column in self.columns] for r, i in self.rows]


Sees = Callable[[Case, int, int, Column], bool]


def sees_rightly(case: Case, request: int, row: int, column: Column) -> bool:
    """Its own context as far as it is committed, and its own block."""
    is_live = column.slot is None or column.slot < case.context_lens[column.owner]
    return column.owner == request and is_live


def by_request(case: Case) -> Mask:
    """The right mask with its columns in another order: context and block of each request."""
    order = sorted(case.columns, key=lambda column: column.owner)
    return [[sees_rightly(case, r, i, column) for column in order] for r, i in case.rows]


def inputs_of(ask: Question, case: Case) -> Inputs:
    """What `block_inputs` returned, checked against its contract. Raises Rejected."""
    value = ask.call(INPUTS, *case.arguments).value
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise Rejected(f"{INPUTS} returned {a_type(value)}, not (token_ids, positions, mask)")
    num_rows = len(case.rows)
    ids, positions = (
        as_numbers(part, name, num_rows)
        for part, name in zip(value[:2], ("token_ids", "positions"), strict=True)
    )
    return ids, positions, as_mask(value[2], num_rows, len(case.columns))


def as_numbers(value: object, name: str, count: int) -> list[int]:
    """So many whole numbers. Raises Rejected."""
    if not isinstance(value, list | tuple):
        raise Rejected(f"{name} is {a_type(value)}, not a list of {count} whole numbers")
    if len(value) != count:
        raise Rejected(f"{name} holds {len(value)} numbers, expected {count}, one a row")
    if any(isinstance(number, bool) or not isinstance(number, int) for number in value):
        raise Rejected(f"{name} holds something that is not a whole number")
    return list(value)


def as_mask(value: object, num_rows: int, num_columns: int) -> Mask:
    """So many rows of so many truth values; 0 and 1 will do. Raises Rejected."""
    shape = f"{num_rows} rows of {num_columns} entries"
    if not isinstance(value, list | tuple):
        raise Rejected(f"mask is {a_type(value)}, not {shape}")
    if len(value) != num_rows:
        raise Rejected(f"mask has {len(value)} rows, expected {shape}")
    for number, row in enumerate(value):
        if not isinstance(row, list | tuple):
            raise Rejected(f"row {number} of mask is {a_type(row)}, not a list")
        if len(row) != num_columns:
            raise Rejected(f"row {number} of mask holds {len(row)} entries, expected {num_columns}")
        if any(entry not in (0, 1) for entry in row):
            raise Rejected(f"row {number} of mask holds something that is not True or False")
    return [[bool(entry) for entry in row] for row in value]


def cases(rng: random.Random) -> Iterator[Case]:
    """Some requests, contexts of different lengths, blocks of different sizes, padding or none."""
    yield random_case(rng, 3)
    for number in range(NUM_CASES):
        yield random_case(rng, 1 + number % 4)


def random_case(rng: random.Random, num_requests: int) -> Case:
    """Contexts of 1 to MAX_CONTEXT tokens; the longest may fill its slots."""
    lens = [rng.randint(1, MAX_CONTEXT) for _ in range(num_requests)]
    num_slots = max(lens) + rng.randint(0, 3)
    *anchors, mask_token_id = rng.sample(range(VOCAB), num_requests + 1)
    return Case(anchors, lens, num_slots, rng.choice(BLOCK_SIZES), mask_token_id)
