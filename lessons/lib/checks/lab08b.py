"""Lab 8B: are the inner lines of the tree-attention kernel those of a masked online softmax?

The reference adds up weight by weight in plain Python; the whole attention is compared with a
softmax over all columns at once, which has neither a running maximum nor a rescale.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from lessons.lib.checks.asking import Question, Rejected, Submission, try_all
from lessons.lib.checks.online_softmax import (
    CELL,
    MISTAKES,
    NORMALIZE,
    REL_TOL,
    STEP,
    WORD_BITS,
    Block,
    Row,
    Tried,
    Way,
    cases,
    hidden,
    is_same,
    normalize,
    random_block,
    random_state,
    signed,
    step,
    step_by,
    unseen,
)


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
    try_all(parts, ask, rng)
    return "hidden blocks, unseen rows, the last bit of a word and scores far apart are handled"


def _hidden_block(ask: Question, rng: random.Random) -> None:
    state = random_state(rng, 5, 3)
    if not is_same(step(ask, state, hidden(rng, 5, 3)), state, 10.0):
        raise Rejected("a block that no row sees must leave the state as it is")


def _unseen_rows(ask: Question, rng: random.Random) -> None:
    state = unseen(3, 2)
    after = step(ask, state, hidden(rng, 3, 2))
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
