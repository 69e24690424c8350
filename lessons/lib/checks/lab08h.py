"""Lab 8H: does `fit_buckets` choose the cheapest buckets that fit the memory?

Judged is what a choice costs, not which one it is: several may cost the same. Small cases are
compared with every subset, large ones with a table over sizes and memory.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from lessons.lib.checks.asking import Question, Rejected, Submission, a_type, try_all

CELL = "fit_buckets"
FIT = "fit_buckets"
NUM_SMALL, NUM_LARGE = 24, 4
REL_TOL = 1e-9


@dataclass(frozen=True)
class Case:
    """Sizes a step may have; what a step of each costs in its graph and without one; what the
    graph holds; how many steps of each size there are; the memory that graphs may take."""

    sizes: list[int]
    graph_ms: list[float]
    eager_ms: list[float]
    graph_mib: list[int]
    traffic: list[int]
    max_mib: int

    @property
    def arguments(self) -> tuple[list[int], list[float], list[float], list[int], list[int], int]:
        """As `fit_buckets` takes them."""
        parts = self.sizes, self.graph_ms, self.eager_ms, self.graph_mib, self.traffic
        return *(list(part) for part in parts), self.max_mib  # type: ignore[return-value]

    def total_ms(self, chosen: Sequence[int]) -> float:
        """What all steps cost: each in the smallest chosen size that is not below its own."""
        cost = dict(zip(self.sizes, self.graph_ms, strict=True))
        total = 0.0
        for size, eager, count in zip(self.sizes, self.eager_ms, self.traffic, strict=True):
            bucket = min((b for b in chosen if b >= size), default=None)
            total += count * (eager if bucket is None else cost[bucket])
        return total

    def held_mib(self, chosen: Sequence[int]) -> int:
        """What the graphs of the chosen sizes hold."""
        held = dict(zip(self.sizes, self.graph_mib, strict=True))
        return sum(held[size] for size in chosen)


def choice_of(ask: Question, case: Case) -> list[int]:
    """What `fit_buckets` returned, checked against its contract. Raises Rejected."""
    value = ask.call(FIT, *case.arguments).value
    if not isinstance(value, list | tuple):
        raise Rejected(f"{FIT} returned {a_type(value)}, not a list of sizes")
    if any(isinstance(size, bool) or not isinstance(size, int) for size in value):
        raise Rejected(f"{FIT} returned something that is not a whole number among the sizes")
    chosen = list(value)
    if set(chosen) - set(case.sizes):
        raise Rejected("a size is chosen that is not among the given ones (indices are no sizes)")
    if chosen != sorted(set(chosen)):
        raise Rejected("the chosen sizes must go up, each once")
    return chosen


def best_of_all(case: Case) -> float:
    """Every subset: the obvious way, for few sizes."""
    subsets = (
        chosen
        for count in range(len(case.sizes) + 1)
        for chosen in combinations(case.sizes, count)
        if case.held_mib(chosen) <= case.max_mib
    )
    return min(case.total_ms(chosen) for chosen in subsets)


def best_by_table(case: Case) -> float:
    """table[m]: cheapest way to serve the smallest `end` sizes with exactly the memory m."""
    tables: list[dict[int, float]] = [{0: 0.0}]
    for end in range(1, len(case.sizes) + 1):
        table: dict[int, float] = {}
        for start in range(end):
            cost = sum(case.traffic[start:end]) * case.graph_ms[end - 1]
            for held, before in tables[start].items():
                now = held + case.graph_mib[end - 1]
                if now <= case.max_mib:
                    table[now] = min(table.get(now, math.inf), before + cost)
        tables.append(table)
    tails = [
        sum(c * e for c, e in zip(case.traffic[end:], case.eager_ms[end:], strict=True))
        for end in range(len(case.sizes) + 1)
    ]
    ends = zip(tables, tails, strict=True)
    return min(min(table.values()) + tail for table, tail in ends if table)


def random_case(rng: random.Random, num_sizes: int) -> Case:
    """A staircase: cost jumps at tiles and is flat between them, with a little noise."""
    sizes = sorted(rng.sample(range(1, 4 * num_sizes), num_sizes))
    tile, base, step = rng.choice((4, 8, 16)), rng.uniform(5, 20), rng.uniform(0.5, 6)
    graph_ms = [base + step * (-(-size // tile)) + rng.uniform(0, 0.3) for size in sizes]
    eager_ms = [cost + rng.uniform(2, 12) for cost in graph_ms]
    graph_mib = [rng.randint(2, 6) + size // 8 for size in sizes]
    traffic = [rng.choice((0, 1, rng.randint(1, 40), rng.randint(40, 400))) for _ in sizes]
    return Case(sizes, graph_ms, eager_ms, graph_mib, traffic, rng.randint(0, sum(graph_mib) // 2))


# best


def check_best(submission: Submission) -> str:
    """Few sizes: the choice costs what the best of all subsets costs, and fits."""
    ask = submission.ask(CELL)
    for case in cases(submission.rng):
        judge(case, choice_of(ask, case), best_of_all(case))
    return "the choice costs as little as the best of all subsets"


def cases(rng: random.Random) -> Iterator[Case]:
    """Random staircases, some with too little memory for anything, some with enough for all."""
    for number in range(NUM_SMALL):
        case = random_case(rng, rng.randint(4, 9))
        room = {0: sum(case.graph_mib), 1: min(case.graph_mib)}.get(number % 6, case.max_mib)
        yield Case(*case.arguments[:5], max_mib=room)


def judge(case: Case, chosen: list[int], best_ms: float) -> None:
    """Raise Rejected, in words, unless the choice fits and costs what the best one does."""
    if case.held_mib(chosen) > case.max_mib:
        raise Rejected("the chosen graphs hold more memory than max_mib")
    got = case.total_ms(chosen)
    if math.isclose(got, best_ms, rel_tol=REL_TOL):
        return
    if not chosen:
        raise Rejected("nothing is chosen, although a graph that fits would make steps cheaper")
    evenly = Case(*case.arguments[:4], [1] * len(case.sizes), case.max_mib)
    if math.isclose(evenly.total_ms(chosen), best_of(evenly), rel_tol=REL_TOL):
        raise Rejected("the choice is the best for equal traffic: weigh each size by its steps")
    largest = Case(*case.arguments[:3], [1] * len(case.sizes), case.traffic, len(chosen))
    if math.isclose(got, best_of(largest), rel_tol=REL_TOL):
        raise Rejected("the choice is the best for its number of graphs: memory counts, not graphs")
    raise Rejected(f"another choice that fits costs {100 * (1 - best_ms / got):.1f} % less")


def best_of(case: Case) -> float:
    """Every subset where there are few, else the table."""
    return best_of_all(case) if len(case.sizes) <= 9 else best_by_table(case)


# large


def check_large(submission: Submission) -> str:
    """Forty sizes: right again, and in time."""
    ask = submission.ask(CELL)
    for _ in range(NUM_LARGE):
        case = random_case(submission.rng, submission.rng.randint(36, 40))
        judge(case, choice_of(ask, case), best_by_table(case))
    return "right for forty sizes too, where subsets are too many to try"


# boundary


def check_boundary(submission: Submission) -> str:
    """Edges of the contract; one rejection names all that failed."""
    ask, rng = submission.ask(CELL), submission.rng
    parts = (_no_memory, _one_size, _dear_graph, _refuses, _changes_no_input, _has_no_memory)
    try_all(parts, ask, rng)
    return "no room, one size, graphs that do not pay and impossible input are handled"


def _no_memory(ask: Question, rng: random.Random) -> None:
    case = random_case(rng, 6)
    if choice_of(ask, Case(*case.arguments[:5], max_mib=0)):
        raise Rejected("where no graph fits, none is chosen and every step runs eagerly")


def _one_size(ask: Question, rng: random.Random) -> None:
    cost, size = rng.uniform(3, 9), rng.randint(1, 64)
    case = Case([size], [cost], [2 * cost], [5], [rng.randint(1, 9)], 5)
    if choice_of(ask, case) != [size]:
        raise Rejected("a graph that takes exactly max_mib fits")


def _dear_graph(ask: Question, rng: random.Random) -> None:
    """A large graph that serves nobody, and one that costs more than running eagerly."""
    small = rng.uniform(3, 5)
    case = Case([1, 64], [small, 40.0], [small + 1, 30.0], [4, 4], [100, 10], 8)
    if choice_of(ask, case) != [1]:
        raise Rejected("a graph is not worth its place where a step costs less without it")


def _refuses(ask: Question, rng: random.Random) -> None:
    bad = {
        "sizes that do not go up": ([4, 2], [1.0, 1.0], [2.0, 2.0], [1, 1], [1, 1], 4),
        "a size twice": ([2, 2], [1.0, 1.0], [2.0, 2.0], [1, 1], [1, 1], 4),
        "lists of different lengths": ([2, 4], [1.0], [2.0, 2.0], [1, 1], [1, 1], 4),
        "no sizes": ([], [], [], [], [], 4),
        "a negative max_mib": ([2, 4], [1.0, 1.0], [2.0, 2.0], [1, 1], [1, 1], -1),
    }
    for what, arguments in bad.items():
        ask.must_refuse(FIT, what, *arguments)


def _changes_no_input(ask: Question, rng: random.Random) -> None:
    case = random_case(rng, 6)
    if ask.call(FIT, *case.arguments).args != case.arguments:
        raise Rejected(f"{FIT} changes the lists that it is given")


def _has_no_memory(ask: Question, rng: random.Random) -> None:
    some = [random_case(rng, 5) for _ in range(5)]
    first = [choice_of(ask, case) for case in some]
    if [choice_of(ask, case) for case in reversed(some)] != first[::-1]:
        raise Rejected(f"{FIT} gives another answer to the same question after other calls")


CHECKS: dict[str, Callable[[Submission], str]] = {
    "best": check_best,
    "large": check_large,
    "boundary": check_boundary,
}
