"""Lab 8B: are the inner lines of the tree-attention kernel those of a masked online softmax?

The reference adds up weight by weight in plain Python; the whole attention is compared with a
softmax over all columns at once, which has neither a running maximum nor a rescale.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lessons.lib.checks.asking import Question, Rejected, Submission, a_type

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


def check_step(submission: Submission) -> str:
    """One block added to a state."""
    ask, rng, tried = submission.ask(CELL), submission.rng, list[Tried]()
    for state, block in cases(rng):
        size = max(abs(value) for row in block.values for value in row) + 10.0
        tried.append(((state, block), step(ask, state, block), size))

    def holds(way: Way) -> bool:
        return all(is_same(got, step_by(way, *asked), size) for asked, got, size in tried)

    if holds(Way()):
        return "acc, row_max and row_sum are those of the masked online softmax"
    for way, sentence in MISTAKES:
        if holds(way):
            raise Rejected(sentence)
    raise Rejected(_what_differs(tried))


def _what_differs(tried: list[Tried]) -> str:
    """Which part of the state is the first to be wrong."""
    for (state, block), got, size in tried:
        right = step_by(Way(), state, block)
        if got[1] != right[1]:
            return "row_max is not the largest visible score so far, the blocks before included"
        if not is_same((right[0], right[1], got[2]), right, size):
            return "row_sum is not the sum of all visible weights 2 ** (score - row_max)"
        if not is_same(got, right, size):
            return "acc is not the sum of weight * value over all visible columns so far"
    raise AssertionError("nothing differs")


def cases(rng: random.Random) -> Iterator[tuple[State, Block]]:
    """Tiles and blocks of odd sizes, in front of fresh, running and unseen rows."""
    yield unseen(3, 2), _hidden(rng, 3, 2)  # whatever the seed, a row stays unseen
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


# The whole attention


@dataclass(frozen=True)
class Tile:
    """All query rows of one KV head: the nodes of a tree, `group` heads each, behind a prefix."""

    parents: list[int]
    context_len: int
    group: int
    scores: list[Row]  # [nodes * group, context_len + nodes], base 2
    values: list[Row]

    def masks(self) -> list[int]:
        """Each node's bits: its ancestors and itself."""
        bits: list[int] = []
        for node, parent in enumerate(self.parents):
            bits.append((bits[parent] if parent >= 0 else 0) | 1 << node)
        return bits

    def blocks(self, block_size: int) -> Iterator[Block]:
        """The prefix, then the tree, in blocks that end with padding, as the kernel goes."""
        length = self.context_len + len(self.parents)
        for begin, end in ((0, self.context_len), (self.context_len, length)):
            for start in range(begin, end, block_size):
                yield self._block(start, end, block_size)

    def _block(self, start: int, end: int, block_size: int) -> Block:
        places = range(start, start + block_size)
        node = [max(place - self.context_len, 0) for place in places]
        masks = [bits for bits in self.masks() for _ in range(self.group)]
        dims = len(self.values[0])
        return Block(
            [[row[place] if place < end else 0.0 for place in places] for row in self.scores],
            [self.values[place] if place < end else [0.0] * dims for place in places],
            [[place < end for place in places]] * len(self.scores),
            [
                [signed(bits >> n // WORD_BITS * WORD_BITS & 2**WORD_BITS - 1) for n in node]
                for bits in masks
            ],
            node,
            start >= self.context_len,
        )

    def softmax(self) -> list[Row]:
        """The mean of the visible values, each row by itself and all columns at once."""
        masks, out = self.masks(), []
        for row, scores in enumerate(self.scores):
            nodes = range(len(self.parents))
            seen = [n + self.context_len for n in nodes if masks[row // self.group] >> n & 1]
            places = [*range(self.context_len), *seen]
            largest = max(scores[place] for place in places)
            weights = [2.0 ** (scores[place] - largest) for place in places]
            total, dims = sum(weights), range(len(self.values[0]))
            mixed = [
                sum(w * self.values[p][d] for w, p in zip(weights, places, strict=True))
                for d in dims
            ]
            out.append([value / total for value in mixed])
        return out


def random_tile(
    rng: random.Random, num_nodes: int, context_len: int, group: int, reach: float
) -> Tile:
    """A random tree; scores up to `reach`, so that some rows see one column only."""
    parents = [-1, *(rng.randrange(max(0, node - 9), node) for node in range(1, num_nodes))]
    columns = range(context_len + num_nodes)
    return Tile(
        parents,
        context_len,
        group,
        [[rng.uniform(-reach, reach) for _ in columns] for _ in range(num_nodes * group)],
        [[rng.uniform(-2, 2) for _ in range(3)] for _ in columns],
    )


def attend(ask: Question, tile: Tile, block_size: int) -> Iterator[list[Row] | None]:
    """The student's attention of a tile, block by block; None until it is complete."""
    state = unseen(len(tile.scores), len(tile.values[0]))
    for block in tile.blocks(block_size):
        state = step(ask, state, block)
        yield None
    yield normalize(ask, state[0], state[2])


def check_whole(submission: Submission) -> str:
    """Step after step, then `normalize`: the softmax over everything that is visible."""
    ask, rng = submission.ask(CELL), submission.rng
    shapes = (
        (1, rng.randint(1, 30), 3, 6.0),  # decode: a tree of one node
        (rng.randint(4, 12), rng.randint(10, 40), 3, 6.0),
        (rng.randint(66, 70), rng.randint(1, 9), 1, 6.0),  # more nodes than a word has bits
        (rng.randint(4, 9), 0, 3, 6.0),  # nothing committed
        (rng.randint(4, 9), rng.randint(10, 40), 2, 4e4),  # exp2 of these overflows
    )
    tiles = [random_tile(rng, *shape) for shape in shapes]
    running = [attend(ask, tile, rng.choice((5, 7, 16))) for tile in tiles]
    results: list[list[Row] | None] = [None] * len(tiles)
    while any(result is None for result in results):  # in turns: the state is all there is
        for number, one in enumerate(running):
            if results[number] is None:
                results[number] = next(one)
    for tile, result in zip(tiles, results, strict=True):
        assert result is not None
        _compare(result, tile.softmax())
    return "block by block it is the masked softmax over prefix and ancestors"


def _compare(got: list[Row], expected: list[Row]) -> None:
    size = max(abs(value) for row in expected for value in row)
    for row, right in zip(got, expected, strict=True):
        if not all(abs(a - b) <= REL_TOL * size for a, b in zip(row, right, strict=True)):
            raise Rejected(
                "the attention made of these steps is not the softmax over the prefix, the "
                "ancestors and the node itself"
            )


# boundary


def check_boundary(submission: Submission) -> str:
    """Edges of the contract; one rejection names all that failed."""
    ask, rng = submission.ask(CELL), submission.rng
    parts = (_hidden_block, _unseen_rows, _last_bit, _far_apart, _one_by_one, _changes_no_input)
    problems = []
    for part in parts:
        try:
            part(ask, rng)
        except Rejected as rejected:
            if rejected.verdict != "fail":
                raise
            problems.append(rejected.reason)
    if problems:
        raise Rejected("; ".join(dict.fromkeys(problems)))
    return "hidden blocks, unseen rows, the last bit of a word and scores far apart are handled"


def _hidden(rng: random.Random, rows: int, dims: int) -> Block:
    block = random_block(rng, rows, rng.randint(2, MAX_COLUMNS), dims, True)
    nothing = [[0] * len(block.node) for _ in range(rows)]
    return replace(block, words=nothing)


def _hidden_block(ask: Question, rng: random.Random) -> None:
    state = random_state(rng, 5, 3)
    if not is_same(step(ask, state, _hidden(rng, 5, 3)), state, 10.0):
        raise Rejected("a block that no row sees must leave the state as it is")


def _unseen_rows(ask: Question, rng: random.Random) -> None:
    state = unseen(3, 2)
    after = step(ask, state, _hidden(rng, 3, 2))
    if after != state:
        raise Rejected("a row that has seen nothing keeps acc 0, row_max -inf and row_sum 0")
    if normalize(ask, after[0], after[2]) != state[0]:
        raise Rejected(f"{NORMALIZE} must give zeros for a row that has seen nothing")


def _last_bit(ask: Question, rng: random.Random) -> None:
    block = random_block(rng, 2, 3, 2, True)
    words = [[signed(1 << 63), 1, 1], [signed((1 << 63) - 1), 0, 2]]
    block = replace(block, node=[63, 64, 65], words=words, visible=[[True] * 3] * 2)
    state = unseen(2, 2)
    if not is_same(step(ask, state, block), step_by(Way(), state, block), 10.0):
        raise Rejected("the nodes 63 and 64 lie in two words: the bit is node % 64, also the last")


def _far_apart(ask: Question, rng: random.Random) -> None:
    state = random_state(rng, 4, 2)
    for reach in (3e4, 1e6):
        block = random_block(rng, 4, 7, 2, False, reach)
        if not is_same(step(ask, state, block), step_by(Way(), state, block), 10.0):
            raise Rejected("scores far apart must neither overflow nor lose the largest one")


def _one_by_one(ask: Question, rng: random.Random) -> None:
    state, block = random_state(rng, 1, 1), random_block(rng, 1, 1, 1, False)
    if not is_same(step(ask, state, block), step_by(Way(), state, block), 10.0):
        raise Rejected("one row, one column and one dimension are a block too")


def _changes_no_input(ask: Question, rng: random.Random) -> None:
    state, block = random_state(rng, 3, 2), random_block(rng, 3, 5, 2, True)
    given = (
        *state, block.scores, block.values, block.visible, block.words, block.node, True
    )  # fmt: skip
    if ask.call(STEP, *given).args != given:
        raise Rejected(f"{STEP} changes what it is given")
    first = [step(ask, state, block) for _ in range(2)]
    if first[0] != first[1]:
        raise Rejected(f"{STEP} gives another answer to the same question after other calls")


CHECKS: dict[str, Callable[[Submission], str]] = {
    "step": check_step,
    "whole": check_whole,
    "boundary": check_boundary,
}
