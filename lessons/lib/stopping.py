"""Where an answer ends inside a text: stop strings, and what a stream must hold back for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_INCOMPLETE = "\ufffd"  # what a decoder prints for the first bytes of a character


def find_stop(text: str, stop: Sequence[str]) -> int | None:
    """Where the first of the stop strings begins; None where none occurs."""
    places = [place for word in stop if (place := text.find(word)) >= 0]
    return min(places, default=None)


def tokens_until_stop(
    token_ids: Sequence[int],
    num_new: int,
    stop: Sequence[str],
    decode: Callable[[Sequence[int]], str],
) -> int | None:
    """How many of the last `num_new` tokens to keep so that the one that completes a stop string
    is the last; None where the text of token_ids holds no stop string."""
    if find_stop(decode(token_ids), stop) is None:
        return None
    num_old = len(token_ids) - num_new
    for kept in range(1, num_new):
        if find_stop(decode(token_ids[: num_old + kept]), stop) is not None:
            return kept
    return num_new


def safe_length(text: str, stop: Sequence[str]) -> int:
    """Characters that no later token can take back: neither part of a stop string that has begun
    nor of a character whose bytes are incomplete."""
    certain = text.rstrip(_INCOMPLETE)
    begun = [
        length
        for word in stop
        for length in range(1, min(len(word) - 1, len(certain)) + 1)
        if certain.endswith(word[:length])
    ]
    return len(certain) - max(begun, default=0)
