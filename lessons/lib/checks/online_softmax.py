"""Lab 8B: blocks of scores, the ways to go over them (right and mistaken), and drawn cases."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lessons.lib.checks.asking import Question, Rejected, a_type

CELL = "online_softmax_step"
STEP, NORMALIZE = "online_softmax_step", "normalize"
NUM_CASES, MAX_ROWS, MAX_COLUMNS, MAX_DIMS = 24, 9, 17, 5
REL_TOL = 1e-9  # of the largest sum that a number could be; float64 stays far below
WORD_BITS = 64
UNSEEN = -math.inf

Row = list[float]
State = tuple[list[Row], Row, Row]  # acc, row_max, row_sum


@dataclass(frozen=True)
class Block:
    """One block of columns in front of a tile of rows, as `online_softmax_step` takes it."""

    scores: list[Row]
    values: list[Row]
    visible: list[list[bool]]
    words: list[list[int]]
    node: list[int]
    is_tree: bool

    def sees(self, row: int, column: int) -> bool:
        """Whether a row may use a column: both are real and, in a tree, its bit is set."""
        bit = self.words[row][column] >> (self.node[column] % WORD_BITS) & 1
        return self.visible[row][column] and (not self.is_tree or bit == 1)


Tried = tuple[tuple[State, Block], State, float]  # what was asked, the answer, largest value


def signed(word: int) -> int:
    """A word of 64 bits as int64 holds it."""
    return word - (1 << WORD_BITS) if word >> (WORD_BITS - 1) else word


def unseen(num_rows: int, num_dims: int) -> State:
    """The state before the first block."""
    return [[0.0] * num_dims for _ in range(num_rows)], [UNSEEN] * num_rows, [0.0] * num_rows


def step(ask: Question, state: State, block: Block) -> State:
    """What `online_softmax_step` made of a state, in the contract's shape. Raises Rejected."""
    rows, dims = len(state[0]), len(state[0][0])
    arguments = (
        *state, block.scores, block.values, block.visible, block.words, block.node, block.is_tree
    )  # fmt: skip
    value = ask.call(STEP, *arguments).value
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise Rejected(f"{STEP} returned {a_type(value)}, not a triple (acc, row_max, row_sum)")
    row_max, row_sum = as_row(value[1], rows, "row_max"), as_row(value[2], rows, "row_sum")
    return as_matrix(value[0], rows, dims, "acc"), row_max, row_sum


def normalize(ask: Question, acc: Sequence[Row], row_sum: Row) -> list[Row]:
    """What `normalize` returned, in the contract's shape. Raises Rejected."""
    value = ask.call(NORMALIZE, list(acc), row_sum).value
    return as_matrix(value, len(acc), len(acc[0]), f"the value of {NORMALIZE}")


def as_matrix(value: Any, rows: int, columns: int, name: str) -> list[Row]:
    """So many rows of so many floats. Raises Rejected, which names the shapes."""
    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        raise Rejected(f"{name} is not an array of two dimensions, expected [{rows}, {columns}]")
    widths = sorted({len(row) for row in value})
    if len(value) != rows or widths != [columns]:
        got = f"[{len(value)}, {' or '.join(map(str, widths))}]"
        raise Rejected(f"{name} has shape {got}, expected [{rows}, {columns}]")
    return [as_row(row, columns, name) for row in value]


def as_row(value: Any, size: int, name: str) -> Row:
    """So many floats. Raises Rejected, which names the shapes."""
    if not isinstance(value, list) or any(isinstance(item, list) for item in value):
        raise Rejected(f"{name} is not an array of one dimension, expected [{size}]")
    if len(value) != size:
        raise Rejected(f"{name} has shape [{len(value)}], expected [{size}]")
    if any(isinstance(item, bool) or not isinstance(item, int | float) for item in value):
        raise Rejected(f"{name} holds something that is not a number")
    if any(math.isnan(item) for item in value):
        raise Rejected(
            f"{name} holds NaN: is there -inf - (-inf), as for an unseen row, or inf * 0?"
        )
    return [float(item) for item in value]


# The step


@dataclass(frozen=True)
class Way:
    """How a step could be made; as it stands, the right way."""

    rescale_acc: bool = True
    rescale_sum: bool = True
    turned: bool = False  # rescales by the inverse
    keeps_max: bool = True  # the old maximum counts
    hides: bool = True  # the mask bits count
    hides_in_max: bool = True
    hidden_score: float = UNSEEN
    base: float = 2.0
    masks_prefix: bool = False
    reads_padding: bool = False


MISTAKES: tuple[tuple[Way, str], ...] = (
    (Way(rescale_acc=False), "acc still holds weights in terms of the old maximum: rescale it too"),
    (Way(rescale_sum=False), "row_sum still holds weights in terms of the old maximum: rescale it"),
    (
        Way(rescale_acc=False, rescale_sum=False),
        "what the state holds is in terms of the old maximum: rescale acc and row_sum",
    ),
    (
        Way(turned=True),
        "the rescale is turned round: the old weights shrink when the maximum rises",
    ),
    (Way(keeps_max=False), "the running maximum is over all blocks, not over this block alone"),
    (Way(hides=False), "hidden nodes have weight: a row uses a node only where its bit is set"),
    (
        Way(hides_in_max=False),
        "row_max must be the largest visible score: a hidden one may be far larger",
    ),
    (Way(hidden_score=0.0), "a hidden score of 0 still has weight: it must be -inf"),
    (Way(base=math.e), "the scores are in base 2: the weights are exp2, not exp"),
    (Way(masks_prefix=True), "a prefix block has no mask bits: read words only where IS_TREE"),
    (
        Way(reads_padding=True),
        "rows and columns of padding have weight: visible must stay false where it is false",
    ),
)


def step_by(way: Way, state: State, block: Block) -> State:
    """One step, weight by weight."""
    new: State = ([], [], [])
    for row, (acc, old_max, old_sum) in enumerate(zip(*state, strict=True)):
        columns = range(len(block.values))
        seen = [_sees(way, block, row, column) for column in columns]
        scores = [block.scores[row][c] if seen[c] else way.hidden_score for c in columns]
        largest = max(scores if way.hides_in_max else block.scores[row])
        new_max = max(old_max, largest) if way.keeps_max else largest
        shift = new_max if new_max > UNSEEN else 0.0
        weights = [power(way.base, score - shift) for score in scores]
        rescale = power(way.base, shift - old_max if way.turned else old_max - shift)
        shrink = [old * (rescale if way.rescale_acc else 1.0) for old in acc]
        dims = range(len(acc))
        added = [sum(w * block.values[c][d] for c, w in enumerate(weights) if w) for d in dims]
        new[0].append([shrink[d] + added[d] for d in dims])
        new[1].append(new_max)
        new[2].append(old_sum * (rescale if way.rescale_sum else 1.0) + sum(weights))
    return new


def _sees(way: Way, block: Block, row: int, column: int) -> bool:
    if way.masks_prefix:
        return replace(block, is_tree=True).sees(row, column)
    if way.reads_padding:
        shown = [[True] * len(block.values)] * len(block.scores)
        return replace(block, visible=shown).sees(row, column)
    return block.sees(row, column) if way.hides else block.visible[row][column]


def power(base: float, exponent: float) -> float:
    """base ** exponent, inf where that is too large."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def is_same(got: State, expected: State, size: float) -> bool:
    """Equal up to rounding, where no value is larger than `size`. False for NaN."""
    for row, (acc, row_max, row_sum) in enumerate(zip(*expected, strict=True)):
        if got[1][row] != row_max or not abs(got[2][row] - row_sum) <= REL_TOL * row_sum:
            return False
        if not all(
            abs(one - other) <= REL_TOL * row_sum * size
            for one, other in zip(got[0][row], acc, strict=True)
        ):
            return False
    return True


def hidden(rng: random.Random, rows: int, dims: int) -> Block:
    """A tree's block of which no row may see anything."""
    block = random_block(rng, rows, rng.randint(2, MAX_COLUMNS), dims, True)
    nothing = [[0] * len(block.node) for _ in range(rows)]
    return replace(block, words=nothing)


def cases(rng: random.Random) -> Iterator[tuple[State, Block]]:
    """Tiles and blocks of odd sizes, in front of fresh, running and unseen rows."""
    yield unseen(3, 2), hidden(rng, 3, 2)  # whatever the seed, a row stays unseen
    for number in range(NUM_CASES):
        rows, dims = rng.randint(2, MAX_ROWS), rng.randint(1, MAX_DIMS)
        block = random_block(rng, rows, rng.randint(2, MAX_COLUMNS), dims, number % 3 > 0)
        yield random_state(rng, rows, dims), block


def random_state(rng: random.Random, rows: int, dims: int) -> State:
    """Rows that have seen something, with a few that have not."""
    state = unseen(rows, dims)
    for row in range(rows):
        if row == 0 or rng.random() < 0.8:
            state[0][row] = [rng.uniform(-2, 2) for _ in range(dims)]
            state[1][row], state[2][row] = rng.uniform(-6, 6), rng.uniform(1, 5)
    return state


def random_block(
    rng: random.Random, rows: int, columns: int, dims: int, is_tree: bool, reach: float = 8.0
) -> Block:
    """Scores up to `reach`, hidden ones larger; the nodes lie around the end of a word."""
    first_node = rng.randrange(2 * WORD_BITS)
    node = [first_node + column for column in range(columns)]
    words = [_row_of_words(rng, node) for _ in range(rows)]
    block = Block(
        [[rng.uniform(-reach, reach) for _ in node] for _ in range(rows)],
        [[rng.uniform(-2, 2) for _ in range(dims)] for _ in node],
        [[rng.random() < 0.85 for _ in node] for _ in range(rows)],
        words,
        node,
        is_tree,
    )
    for row in range(rows):
        for column in range(columns):
            if not block.sees(row, column) and rng.random() < 0.5:
                block.scores[row][column] += 2 * reach
    return block


def _row_of_words(rng: random.Random, node: Sequence[int]) -> list[int]:
    """For each column the word that holds its node's bit, as a kernel loads it."""
    bits = {number // WORD_BITS: signed(rng.getrandbits(WORD_BITS)) for number in node}
    return [bits[number // WORD_BITS] for number in node]
