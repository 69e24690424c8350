# Right: type hints and a generator.
from collections.abc import Iterator

Row = tuple[int, str, int, int]


def rows_behind(text: list[int], num_states: int, start: int) -> Iterator[Row]:
    for place, token in enumerate(text[1:]):
        if place >= start:
            has_state = place < num_states
            yield token, "target" if has_state else "own", place if has_state else place - 1, place


def mtp_rows(
    token_ids: list[int], draft_ids: list[int], num_firm: int, num_guessed: int
) -> tuple[int, list[Row]]:
    num_states = len(token_ids) - 1
    is_first = not draft_ids
    if min(num_states - 1, num_firm, num_guessed, num_states - num_firm) < 0:
        raise ValueError("impossible rows")
    if not is_first and (num_states - num_firm or num_guessed + 1 - len(draft_ids)):
        raise ValueError("impossible passes")
    num_kept = num_firm if is_first else num_firm + num_guessed
    return num_kept, list(rows_behind([*token_ids, *draft_ids], num_states, num_kept))
