"""Drafting without a model: the text has said this before, so it may go on the same way.

The longest suffix of the context that occurred earlier decides; what followed it then is proposed.
Same idea as prompt lookup in transformers and the n-gram proposers of vLLM and SGLang.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernels.runtime import InputError
from lessons.lib.draft.proposer import DraftProposal


class NgramProposer:
    """Suffix lookup over prompt and output. Its only state is the context the engine passes in."""

    memory_bytes = 0

    def __init__(self, max_ngram: int = 3, min_ngram: int = 2) -> None:
        """Suffixes of max_ngram down to min_ngram tokens are tried, the longest first."""
        if not 1 <= min_ngram <= max_ngram:
            raise InputError(
                f"n-gram lengths must satisfy 1 <= min <= max, got {min_ngram} and {max_ngram}"
            )
        self._lengths = range(max_ngram, min_ngram - 1, -1)

    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """What followed the latest earlier occurrence; nothing when no suffix occurred before."""
        context = list(context_ids)
        for length in self._lengths:
            start = latest_match(context, length)
            if start is not None:
                return DraftProposal(_copy_from(context, start, num_draft_tokens))
        return DraftProposal([])

    def observe(self, token_ids: Sequence[int]) -> None:
        """Nothing to do: the next context contains the tokens."""

    def forget(self) -> None:
        """Nothing to release."""


def latest_match(context: list[int], length: int) -> int | None:
    """Index after the latest earlier occurrence of the last `length` tokens, else None."""
    suffix, last = context[-length:], context[-1]
    for end in range(len(context) - 1, length - 1, -1):
        if context[end - 1] == last and context[end - length : end] == suffix:
            return end
    return None


def _copy_from(context: list[int], start: int, count: int) -> list[int]:
    """`count` tokens from `start` on. A copy that runs past the end continues with what it copied,
    so a text that repeats with a period shorter than `count` is still drafted in full."""
    period = len(context) - start
    return [context[start + offset % period] for offset in range(count)]
