"""Requests that draft together: what is computed row by row is computed once for all of them.

A draft pass is time to read weights. Eight requests that draft one after another read them eight
times; side by side they read them once. So a drafter says what it computes and not when: its
drafting is a generator that yields every computation whose rows depend on nothing but themselves,
and goes on with the result. Attention, which looks at a request's own KV, it does by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from lessons.lib.draft.proposer import DraftProposal, Proposer

Result = TypeVar("Result")


@dataclass(frozen=True)
class Ask:
    """A computation that one request waits for.

    many: does it for all that ask for the same at the same time: their items -> their results, in
    order. Must hold: but for rounding, no result depends on the others' items.
    """

    many: Callable[[Sequence[Any]], Sequence[Any]]
    item: Any


Steps = Generator[Ask, Any, Result]  # computes in steps that can be shared
Drafting = Steps[DraftProposal]
Question = tuple[Proposer, Sequence[int], int]  # proposer, context_ids, num_draft_tokens


@dataclass(frozen=True)
class RowWise:
    """A function of tensors whose first dim counts rows; a None stays None for every request."""

    function: Callable[..., Any]
    settings: tuple[Hashable, ...] = ()

    def __call__(self, items: Sequence[tuple[torch.Tensor | None, ...]]) -> list[Any]:
        """The function of all rows, and of its result to each request its own."""
        if len(items) == 1:
            return [self.function(*items[0], *self.settings)]
        sizes = [len(next(part for part in item if part is not None)) for item in items]
        columns = zip(*items, strict=True)
        joined = [None if column[0] is None else torch.cat(column) for column in columns]
        made = self.function(*joined, *self.settings)
        return list(_split(made, sizes))


def _split(made: Any, sizes: Sequence[int]) -> Sequence[Any]:
    """Tensors, None and tuples of such -> the same form for each request."""
    if made is None:
        return [None] * len(sizes)
    if isinstance(made, torch.Tensor):
        return made.split(sizes)
    return list(zip(*(_split(part, sizes) for part in made), strict=True))


def by_row(
    function: Callable[..., Any], *tensors: torch.Tensor | None, settings: tuple[Hashable, ...] = ()
) -> Ask:
    """Ask for function(*tensors, *settings), whose rows depend on nothing but themselves."""
    return Ask(RowWise(function, settings), tensors)


class SharedProposer(Protocol):
    """A proposer that can draft together with others; its state is still its own."""

    def drafting(self, context_ids: Sequence[int], num_draft_tokens: int) -> Drafting:
        """`propose` in steps. Closed early, it leaves the state as it was before."""
        ...

    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """As `Proposer.propose`: alone."""
        return in_lockstep([self.drafting(context_ids, num_draft_tokens)])[0]


def propose_all(questions: Sequence[Question]) -> list[DraftProposal]:
    """What each proposer answers. Those that share draft together, the others one by one; among
    the latter are all whose `propose` is no longer SharedProposer's: a subclass or a listener."""
    draftings: dict[int, Drafting] = {}
    found: dict[int, DraftProposal] = {}
    for index, (proposer, context_ids, count) in enumerate(questions):
        if getattr(proposer.propose, "__func__", None) is SharedProposer.propose:
            draftings[index] = proposer.drafting(context_ids, count)  # type: ignore[attr-defined]
        else:
            found[index] = proposer.propose(context_ids, count)
    found |= zip(draftings, in_lockstep(list(draftings.values())), strict=True)
    return [found[index] for index in range(len(questions))]


@torch.inference_mode()
def in_lockstep(running: Sequence[Steps[Result]]) -> list[Result]:
    """Run all to their ends, each step once for those that ask for the same; their results."""
    results: dict[int, Result] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(running)))
    try:
        while answers:
            groups: dict[Callable[..., Any], list[tuple[int, Any]]] = {}
            for index, answer in answers.items():
                try:
                    ask = running[index].send(answer)
                except StopIteration as end:
                    results[index] = end.value
                else:
                    groups.setdefault(ask.many, []).append((index, ask.item))
            answers = {}
            for many, members in groups.items():
                indices, items = zip(*members, strict=True)
                answers |= zip(indices, many(items), strict=True)
    finally:
        for steps in running:
            steps.close()
    return [results[index] for index in range(len(running))]
