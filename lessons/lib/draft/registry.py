"""Names of the methods a user can ask for. A new proposer adds one line here and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kernels.runtime import InputError
from lessons.lib.draft.ngram import NgramProposer
from lessons.lib.draft.proposer import Proposer

TARGET_ONLY = "none"

PROPOSERS: dict[str, Callable[[], Proposer]] = {
    "ngram": NgramProposer,
    "ngram-tree": partial(NgramProposer, num_branches=3),
}


def method_names() -> list[str]:
    """All known methods, target-only first."""
    return [TARGET_ONLY, *PROPOSERS]


def make_proposer(method: str) -> Proposer | None:
    """A fresh proposer, or None for target-only. Raises InputError for an unknown method."""
    if method == TARGET_ONLY:
        return None
    if method not in PROPOSERS:
        raise InputError(f"unknown method {method!r}; choose one of {', '.join(method_names())}")
    return PROPOSERS[method]()
