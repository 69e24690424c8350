"""Lab 8E: does `mtp_rows` wire an MTP module rightly, and does `name_wiring` read its curves?

The wiring is judged row by row, on texts of the check's own making: which token, whose state,
which position. The curves are drawn from what `lessons.lib.bench.mtp_wirings` measured.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lessons.lib.checks.asking import Question, Rejected, Submission, a_type, try_all
from lessons.lib.checks.wiring_curves import NAMES, drawn_pair

CELL, NAME_CELL = "mtp_rows", "name_wiring"
ROWS, NAME = "mtp_rows", "name_wiring"
TARGET, OWN = "target", "own"
NUM_LIVES, NUM_ROUNDS, MAX_DEPTH, VOCAB = 8, 5, 5, 49_152
CURVES_EACH = 6

Row = tuple[int, str, int, int]
Answer = tuple[int, list[Row]]


@dataclass(frozen=True)
class Case:
    """A pass: the committed text, this round's drafts, and the rows that the module's KV holds."""

    token_ids: list[int]
    draft_ids: list[int]
    num_firm: int
    num_guessed: int

    @property
    def arguments(self) -> tuple[list[int], list[int], int, int]:
        """As `mtp_rows` takes them."""
        return list(self.token_ids), list(self.draft_ids), self.num_firm, self.num_guessed

    @property
    def text(self) -> list[int]:
        """What is committed and what is drafted."""
        return self.token_ids + self.draft_ids

    @property
    def num_states(self) -> int:
        """Of the target: its last token has not been through it."""
        return len(self.token_ids) - 1

    @property
    def num_kept(self) -> int:
        """Rows of guesses serve the round that guessed them, no other."""
        return self.num_firm + (self.num_guessed if self.draft_ids else 0)

    @property
    def rows(self) -> list[Row]:
        """A state of p and token p + 1, at p; the module's own output where the target has none."""
        places = range(self.num_kept, len(self.text) - 1)
        return [
            (self.text[p + 1], *((TARGET, p) if p < self.num_states else (OWN, p - 1)), p)
            for p in places
        ]


def lives(rng: random.Random) -> Iterator[list[Case]]:
    """Passes of a request, round by round; its tokens differ from one another."""
    for _ in range(NUM_LIVES):
        tokens = rng.sample(range(VOCAB), 60)
        text, firm, guessed, cases = tokens[: rng.randint(2, 12)], 0, 0, []
        for _ in range(NUM_ROUNDS):
            depth = rng.randint(1, MAX_DEPTH)
            drafts = tokens[len(text) : len(text) + depth]
            accepted = rng.randint(0, depth)
            drafts[accepted:] = rng.sample(range(VOCAB), depth - accepted)
            for number in range(depth):
                cases.append(Case(list(text), drafts[:number], firm, guessed))
                firm, guessed = len(text) - 1, number
            text = tokens[: len(text) + accepted + 1]
        yield cases


def rows_of(ask: Question, case: Case) -> Answer:
    """What `mtp_rows` returned, checked against its contract. Raises Rejected."""
    return as_rows(ask.call(ROWS, *case.arguments).value)


def as_rows(value: object) -> Answer:
    """(num_kept, rows) of plain data. Raises Rejected."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Rejected(f"{ROWS} returned {a_type(value)}, not a pair (num_kept, rows)")
    num_kept, rows = value
    if not is_whole(num_kept):
        raise Rejected(f"num_kept is {a_type(num_kept)}, not a whole number")
    if not isinstance(rows, tuple | list):
        raise Rejected(f"rows is {a_type(rows)}, not a list of rows")
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != 4:
            got = f"{len(row)} entries" if isinstance(row, tuple | list) else a_type(row)
            raise Rejected(f"a row is (token_id, whose, index, position), 4 entries; got {got}")
        if row[1] not in (TARGET, OWN) or not all(is_whole(row[i]) for i in (0, 2, 3)):
            raise Rejected(f"a row holds whole numbers and {TARGET!r} or {OWN!r} in second place")
    return num_kept, [(token, whose, index, place) for token, whose, index, place in rows]


def is_whole(value: object) -> bool:
    """An int that is no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


# pairs


def check_pairs(submission: Submission) -> str:
    """The first pass of a round: what was committed, each state with the token behind it."""
    ask = submission.ask(CELL)
    for cases in lives(submission.rng):
        for case in cases:
            if not case.draft_ids:
                judge_first(case, *rows_of(ask, case))
    return "each state of the target meets the token behind it, and no row of a guess stays"


def judge_first(case: Case, num_kept: int, rows: list[Row]) -> None:
    """Raise Rejected, in words, unless a first pass is right."""
    if num_kept > case.num_firm:
        raise Rejected("rows of the last round's guesses stay in the module's KV: drop them first")
    if num_kept < case.num_firm:
        raise Rejected("rows that rest on the target's states are dropped: they are right already")
    if len(rows) != len(case.rows):
        raise Rejected(
            "a first pass has one row for each state of the target that the module has not seen; "
            f"got {len(rows)} instead of {len(case.rows)}"
        )
    for row, wanted in zip(rows, case.rows, strict=True):
        if row != wanted:
            raise Rejected(_why_first(case, row, wanted))


def _why_first(case: Case, row: Row, wanted: Row) -> str:
    if row[1] == OWN:
        return "a first pass reads the module's own output where the target has a state"
    if row[2:] == wanted[2:] and row[0] == case.text[wanted[3]]:
        return "a state meets its own token; it belongs with the one behind it"
    if row[2] != wanted[2]:
        return "a row reads the state of another place than the one before its token"
    if row[3] != wanted[3]:
        return "the position of a row is that of its state, not that of its token or of the pass"
    return "a row has a token that is not the one behind its state"


# further


def check_further(submission: Submission) -> str:
    """Every further pass: the last draft, with the module's own output of the row before."""
    ask = submission.ask(CELL)
    for cases in lives(submission.rng):
        for case in cases:
            if case.draft_ids:
                judge_further(case, *rows_of(ask, case))
    return "each further pass feeds the module's own output on, one position further"


def judge_further(case: Case, num_kept: int, rows: list[Row]) -> None:
    """Raise Rejected, in words, unless a pass behind a draft is right."""
    if num_kept != case.num_kept:
        raise Rejected("within a round every row that the module has computed stays in its KV")
    if len(rows) != 1:
        raise Rejected(f"a pass behind a draft has one row, for that draft; got {len(rows)}")
    row, (wanted,) = rows[0], case.rows
    if row != wanted:
        raise Rejected(_why_further(case, row, wanted))


def _why_further(case: Case, row: Row, wanted: Row) -> str:
    if row[0] != wanted[0]:
        return "a pass behind a draft embeds the last draft, and another token stands there"
    if row[1] == TARGET:
        return "the target's state is used again; the target has none here, the module has its own"
    if row[2] != wanted[2]:
        return "the output that is fed on is not that of the row before"
    return "the position does not go on by one with each row"


# curves


def check_curves(submission: Submission) -> str:
    """Each wiring is named from its curve, whatever the mixture of texts."""
    ask, rng = submission.ask(NAME_CELL), submission.rng
    hidden = list(NAMES) * CURVES_EACH
    rng.shuffle(hidden)
    for wiring in hidden:
        reference, curve = drawn_pair(rng, wiring)
        got = ask.call(NAME, reference, curve).value
        if not isinstance(got, str) or got not in NAMES:
            raise Rejected(f"{NAME} must return one of {', '.join(NAMES)}, not {a_type(got)}")
        if got != wiring:
            raise Rejected(f"a curve of the wiring {wiring} is called {got}")
    return f"{len(hidden)} curves of {len(NAMES)} wirings are told apart"


# boundary


def check_boundary(submission: Submission) -> str:
    """Edges of the contract; one rejection names all that failed."""
    ask, rng = submission.ask(CELL), submission.rng
    parts = (_shortest, _nothing_new, _refuses, _changes_no_input, _has_no_memory)
    try_all(parts, ask, rng)
    _refuses_curves(submission.ask(NAME_CELL))
    return "the shortest text, a pass without news and impossible input are handled"


def _shortest(ask: Question, rng: random.Random) -> None:
    case = Case(rng.sample(range(VOCAB), 2), [], 0, 0)
    if rows_of(ask, case) != (0, case.rows):
        raise Rejected("a text of two tokens has one row: the first state with the second token")


def _nothing_new(ask: Question, rng: random.Random) -> None:
    """Asked again before anything was committed, as a planner may: only the guesses go."""
    size = rng.randint(3, 9)
    case = Case(rng.sample(range(VOCAB), size), [], size - 1, rng.randint(1, 3))
    if rows_of(ask, case) != (size - 1, []):
        raise Rejected("where the module has seen every state, a first pass only drops the guesses")


def _refuses(ask: Question, rng: random.Random) -> None:
    text = rng.sample(range(VOCAB), 6)
    bad = {
        "a text of one token": ([5], [], 0, 0),
        "more firm rows than the target has states": (text, [], 6, 0),
        "a negative number of rows": (text, [], -1, 0),
        "a draft before the first pass": (text, [7], 3, 0),
        "drafts without their rows": (text, [7, 8], 5, 0),
        "more rows of guesses than drafts": (text, [7], 5, 2),
    }
    for what, arguments in bad.items():
        ask.must_refuse(ROWS, what, *arguments)


def _changes_no_input(ask: Question, rng: random.Random) -> None:
    case = Case(rng.sample(range(VOCAB), 6), [3, 4], 5, 1)
    if ask.call(ROWS, *case.arguments).args != case.arguments:
        raise Rejected(f"{ROWS} changes the lists that it is given")


def _has_no_memory(ask: Question, rng: random.Random) -> None:
    some = [case for cases in lives(rng) for case in cases][:12]
    first = [rows_of(ask, case) for case in some]
    if [rows_of(ask, case) for case in reversed(some)] != first[::-1]:
        raise Rejected(f"{ROWS} gives another answer to the same question after other calls")


def _refuses_curves(ask: Question) -> None:
    bad = {
        "curves of different lengths": ([90, 40, 20, 9], [90, 40, 20]),
        "a curve without rounds": ([90, 40, 20, 9], [0, 0, 0, 0]),
        "a curve that rises": ([90, 40, 20, 9], [90, 40, 50, 9]),
    }
    for what, arguments in bad.items():
        ask.must_refuse(NAME, what, *arguments)


CHECKS: dict[str, Callable[[Submission], str]] = {
    "pairs": check_pairs,
    "further": check_further,
    "curves": check_curves,
    "boundary": check_boundary,
}
