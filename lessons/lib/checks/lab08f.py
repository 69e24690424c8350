"""Lab 8F: does `block_inputs` lay out the blocks of one DFlash pass as the network was trained?

A wrong answer is compared with those that usual mistakes give, so that the reason names one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from lessons.lib.checks.asking import Question, Rejected, Submission, try_all
from lessons.lib.checks.block_cases import (
    INPUTS,
    Case,
    Column,
    Mask,
    Sees,
    by_request,
    cases,
    inputs_of,
    random_case,
    sees_rightly,
)

CELL = "block_inputs"


# inputs


MISTAKEN_TOKENS: tuple[tuple[Callable[[Case, int, int], int], str], ...] = (
    (
        lambda case, request, row: case.mask_token_id,
        "the block begins with the anchor, which is known: only what follows it is masked",
    ),
    (
        lambda case, request, row: case.anchors[request],
        "behind the anchor stand mask tokens, not the anchor again",
    ),
    (
        lambda case, request, row: (
            case.anchors[request] if row == case.block_size - 1 else case.mask_token_id
        ),
        "the anchor is the first row of its block, not the last",
    ),
    (
        lambda case, request, row: case.mask_token_id if row else case.anchors[0],
        "every block begins with the anchor of its own request",
    ),
)

MISTAKEN_POSITIONS: tuple[tuple[Callable[[Case, int, int], int], str], ...] = (
    (
        lambda case, request, row: row,
        "a position is a place in the whole text: the context stands before the block",
    ),
    (
        lambda case, request, row: case.num_slots + row,
        "padding is no text: a block begins at context_lens, not at num_slots",
    ),
    (
        lambda case, request, row: case.context_lens[request] + row + 1,
        "the anchor stands at context_lens, since positions start at 0",
    ),
    (
        lambda case, request, row: case.context_lens[request] + row - 1,
        "the anchor is not part of the context: it stands behind it",
    ),
    (
        lambda case, request, row: case.context_lens[request],
        "the rows of a block stand at consecutive places",
    ),
    (
        lambda case, request, row: case.context_lens[0] + request * case.block_size + row,
        "every block stands behind its own context, not behind the block before it",
    ),
    (
        lambda case, request, row: request * case.num_slots + case.context_lens[request] + row,
        "a position is a place in the text of its request, not a slot of the batch",
    ),
)


def check_inputs(submission: Submission) -> str:
    """Tokens and their places."""
    ask, seen = submission.ask(CELL), []
    for case in cases(submission.rng):
        seen.append((case, *inputs_of(ask, case)[:2]))
    _judge(
        [(case, ids, case.token_ids) for case, ids, _ in seen],
        MISTAKEN_TOKENS,
        "a block holds its anchor and then mask tokens, block after block",
    )
    _judge(
        [(case, positions, case.positions) for case, _, positions in seen],
        MISTAKEN_POSITIONS,
        "a block stands at context_lens and the places behind it, block after block",
    )
    return "an anchor and masks in every block, at their places in the text"


def _judge(
    seen: Sequence[tuple[Case, list[int], list[int]]],
    mistakes: Sequence[tuple[Callable[[Case, int, int], int], str]],
    otherwise: str,
) -> None:
    """seen: case, what came, what is right. Raises Rejected with the mistake that explains all."""
    if all(got == right for _, got, right in seen):
        return
    for mistaken, sentence in mistakes:
        if all(got == [mistaken(case, *row) for row in case.rows] for case, got, _ in seen):
            raise Rejected(sentence)
    raise Rejected(otherwise)


# mask


def _own(case: Case, request: int, row: int, column: Column) -> bool:
    return sees_rightly(case, request, row, column)


MISTAKEN_MASKS: tuple[tuple[Sees, str], ...] = (
    (
        lambda case, r, i, c: _own(case, r, i, c) and (c.row is None or c.row <= i),
        "inside the block attention goes both ways: a row sees the rows behind it too",
    ),
    (
        lambda case, r, i, c: _own(case, r, i, c) and (c.row is None or c.row == i),
        "a row sees its whole block, not itself alone",
    ),
    (
        lambda case, r, i, c: c.owner == r,
        "the slots behind context_lens hold no token: nobody may see them",
    ),
    (
        lambda case, r, i, c: _own(case, c.owner, i, c) and (c.owner == r or c.slot is None),
        "a block sees the blocks of other requests",
    ),
    (
        lambda case, r, i, c: _own(case, c.owner, i, c) and (c.owner == r or c.row is None),
        "a block sees the contexts of other requests",
    ),
    (lambda case, r, i, c: _own(case, c.owner, i, c), "a block sees what other requests own"),
    (lambda case, r, i, c: True, "every row sees everything"),
    (
        lambda case, r, i, c: _own(case, r, i, c) and c.slot is None,
        "a block sees the context of its request too",
    ),
    (
        lambda case, r, i, c: _own(case, r, i, c) and c.row is None,
        "a row sees its own block too, itself included",
    ),
    (
        lambda case, r, i, c: _own(case, r, i, c) and c.slot != case.context_lens[r] - 1,
        "the last committed token before the anchor belongs to the context",
    ),
    (
        lambda case, r, i, c: c.owner == r and (c.slot is None or c.slot <= case.context_lens[r]),
        "slot context_lens is behind the context: the anchor is a row of the block, not a slot",
    ),
    (
        lambda case, r, i, c: _own(case, r, i, c) and not (i == 0 and c.row),
        "the anchor's row sees the masks as well: it is a row of the block like any other",
    ),
    (
        lambda case, r, i, c: (
            c.owner == r and (c.slot is None or c.slot >= case.num_slots - case.context_lens[r])
        ),
        "slot i holds position i: the padding lies behind the context, not before it",
    ),
)


def check_mask(submission: Submission) -> str:
    """Which rows see which columns."""
    ask, seen = submission.ask(CELL), []
    for case in cases(submission.rng):
        seen.append((case, inputs_of(ask, case)[2]))
    wrong = [(case, got) for case, got in seen if got != case.mask_by(sees_rightly)]
    if not wrong:
        return "every row sees its own context and its own block, and nothing else"
    if all(got == by_request(case) for case, got in seen):
        raise Rejected("all context slots come first, then all block rows: mind the columns' order")
    for mistaken, sentence in MISTAKEN_MASKS:
        if all(got == case.mask_by(mistaken) for case, got in seen):
            raise Rejected(sentence)
    raise Rejected(_first_difference(*wrong[0]))


def _first_difference(case: Case, got: Mask) -> str:
    for row, (request, place) in zip(got, case.rows, strict=True):
        for sees, column in zip(row, case.columns, strict=True):
            if sees != sees_rightly(case, request, place, column):
                what = "a context slot" if column.row is None else "a row of a block"
                whose = "its own" if column.owner == request else "another"
                verb = "sees" if sees else "does not see"
                return f"some row {verb} {what} of {whose} request against the contract"
    raise AssertionError("the masks are equal")


# boundary


def check_boundary(submission: Submission) -> str:
    """Edges of the contract; one rejection names all that failed."""
    ask, rng = submission.ask(CELL), submission.rng
    parts = (_one_request, _no_context, _refuses, _changes_no_input, _has_no_memory)
    try_all(parts, ask, rng)
    return "one request, no context and impossible passes are handled"


def _is_right(ask: Question, case: Case) -> bool:
    return list(inputs_of(ask, case)) == case.right


def _one_request(ask: Question, rng: random.Random) -> None:
    length = rng.randint(1, 9)
    if not _is_right(ask, Case([rng.randint(5, 99)], [length], length, 4, 0)):
        raise Rejected("a request alone whose context fills its slots sees everything")


def _no_context(ask: Question, rng: random.Random) -> None:
    anchors = rng.sample(range(5, 99), 2)
    if not _is_right(ask, Case([anchors[0]], [0], 0, 3, 4)):
        raise Rejected("an anchor at position 0 has no context: its block sees itself alone")
    if not _is_right(ask, Case(anchors, [0, 3], 3, 3, 4)):
        raise Rejected("a request without a context may stand beside one that has some")


def _refuses(ask: Question, rng: random.Random) -> None:
    bad = {
        "no request": ([], [], 4, 3, 0),
        "fewer context_lens than anchors": ([7, 8], [2], 4, 3, 0),
        "more context_lens than anchors": ([7], [2, 3], 4, 3, 0),
        "a negative length": ([7, 8], [2, -1], 4, 3, 0),
        "a context longer than its slots": ([7, 8], [2, 5], 4, 3, 0),
        "a block without masks": ([7, 8], [2, 3], 4, 1, 0),
    }
    for what, arguments in bad.items():
        ask.must_refuse(INPUTS, what, *arguments)


def _changes_no_input(ask: Question, rng: random.Random) -> None:
    case = random_case(rng, 3)
    if ask.call(INPUTS, *case.arguments).args != case.arguments:
        raise Rejected(f"{INPUTS} changes the lists that it is given")


def _has_no_memory(ask: Question, rng: random.Random) -> None:
    some = [random_case(rng, count) for count in (1, 2, 3, 2, 1)]
    first = [inputs_of(ask, case) for case in some]
    if [inputs_of(ask, case) for case in reversed(some)] != first[::-1]:
        raise Rejected(f"{INPUTS} gives another answer to the same question after other calls")


CHECKS: dict[str, Callable[[Submission], str]] = {
    "inputs": check_inputs,
    "mask": check_mask,
    "boundary": check_boundary,
}
