"""Drafting without a model: the text has said this before, so it may go on the same way.

The longest suffix of the context that occurred earlier decides; what followed it then is proposed.
Same idea as prompt lookup in transformers and the n-gram proposers of vLLM and SGLang. Where it
occurred several times and went on differently, a tree can try several continuations at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernels.runtime import InputError
from lessons.lib.draft.proposer import DraftProposal


class NgramProposer:
    """Suffix lookup over prompt and output. Its only state is the context the engine passes in."""

    memory_bytes = 0

    def __init__(self, max_ngram: int = 3, min_ngram: int = 2, num_branches: int = 1) -> None:
        """Suffixes of max_ngram down to min_ngram tokens are tried, the longest first.

        num_branches: continuations that are proposed at most; above 1 the proposal is a tree.
        """
        if not 1 <= min_ngram <= max_ngram:
            raise InputError(
                f"n-gram lengths must satisfy 1 <= min <= max, got {min_ngram} and {max_ngram}"
            )
        if num_branches < 1:
            raise InputError(f"num_branches must be 1 or more, got {num_branches}")
        self._lengths = range(max_ngram, min_ngram - 1, -1)
        self._num_branches = num_branches

    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """What followed the latest earlier occurrences; nothing when no suffix occurred before."""
        context = list(context_ids)
        branches: list[list[int]] = []
        for start in self._starts(context):
            branch = _copy_from(context, start, num_draft_tokens)
            if branch[0] not in [other[0] for other in branches]:
                branches.append(branch)
            if len(branches) == self._num_branches:
                break
        if self._num_branches > 1:
            return _share_out(branches, num_draft_tokens)
        return DraftProposal(branches[0] if branches else [])

    def observe(self, token_ids: Sequence[int]) -> None:
        """Nothing to do: the next context contains the tokens."""

    def forget(self) -> None:
        """Nothing to release."""

    def _starts(self, context: list[int]) -> Iterator[int]:
        for length in self._lengths:
            yield from matches(context, length)


def matches(context: list[int], length: int) -> Iterator[int]:
    """Indices after the earlier occurrences of the last `length` tokens, the latest first."""
    suffix, last = context[-length:], context[-1]
    for end in range(len(context) - 1, length - 1, -1):
        if context[end - 1] == last and context[end - length : end] == suffix:
            yield end


def _copy_from(context: list[int], start: int, count: int) -> list[int]:
    """`count` tokens from `start` on. A copy that runs past the end continues with what it copied,
    so a text that repeats with a period shorter than `count` is still drafted in full."""
    period = len(context) - start
    return [context[start + offset % period] for offset in range(count)]


def _share_out(branches: list[list[int]], num_draft_tokens: int) -> DraftProposal:
    """A tree of chains with different first tokens. Every level goes to all branches before the
    next one does; what is left over for the last level goes to the likelier, earlier ones."""
    token_ids: list[int] = []
    parent_ids: list[int] = []
    ends = [-1] * len(branches)
    for level in range(num_draft_tokens):
        for number, branch in enumerate(branches):
            if len(token_ids) < num_draft_tokens:
                parent_ids.append(ends[number])
                ends[number] = len(token_ids)
                token_ids.append(branch[level])
    return DraftProposal(token_ids, parent_ids=parent_ids)
