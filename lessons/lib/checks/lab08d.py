"""Lab 8D: do `grow_beam` and `rerank` make the dynamic draft tree of EAGLE-2 and EAGLE-3?

Judged is what they return, against the definition: sums of log-probabilities, the best of the last
level as the beam, the best of all levels as the tree.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from lessons.lib.checks.asking import Question, Rejected, Submission, a_type, try_all
from lessons.lib.checks.draft_tree_cases import (
    MAX_NODES,
    Candidates,
    likeliest,
    random_candidates,
    some_candidates,
    yield_of,
)

CELL = "draft_tree"
GROW, RERANK = "grow_beam", "rerank"
NUM_CASES = 60
TOLERANCE = 1e-9  # of a score: sums in another order may round otherwise

Beam = tuple[list[float], list[int]]
Tree = tuple[list[int], list[int]]


def beam_of(ask: Question, parents: list[int], log_probs: list[float], width: int) -> Beam:
    """What `grow_beam` returned, checked against its contract. Raises Rejected."""
    value = ask.call(GROW, parents, log_probs, width).value
    scores, beam = _pair(value, GROW, "(scores, beam)")
    if len(scores) != len(parents):
        raise Rejected(f"{GROW} returned {len(scores)} scores for {len(parents)} candidates")
    if any(isinstance(s, bool) or not isinstance(s, int | float) for s in scores):
        raise Rejected(f"{GROW} returned a score that is not a number")
    return [float(score) for score in scores], _candidates(beam, len(parents), f"{GROW}: beam")


def tree_of(ask: Question, parents: list[int], scores: list[float], num_nodes: int) -> Tree:
    """What `rerank` returned, checked against its contract. Raises Rejected."""
    value = ask.call(RERANK, parents, scores, num_nodes).value
    nodes, parent_ids = _pair(value, RERANK, "(nodes, parent_ids)")
    if len(parent_ids) != len(nodes):
        raise Rejected(f"{RERANK} returned {len(parent_ids)} parent_ids for {len(nodes)} nodes")
    if any(isinstance(p, bool) or not isinstance(p, int) for p in parent_ids):
        raise Rejected(f"{RERANK} returned a parent that is not a whole number")
    return _candidates(nodes, len(parents), f"{RERANK}: nodes"), list(parent_ids)


def _pair(value: Any, name: str, shape: str) -> tuple[list[Any], list[Any]]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Rejected(f"{name} returned {a_type(value)}, not a pair {shape}")
    for part in value:
        if not isinstance(part, tuple | list):
            raise Rejected(f"{name} returned {a_type(part)} in its pair {shape}, not a list")
    return list(value[0]), list(value[1])


def _candidates(values: list[Any], count: int, what: str) -> list[int]:
    if any(isinstance(v, bool) or not isinstance(v, int) for v in values):
        raise Rejected(f"{what} holds something that is not a whole number")
    if any(not 0 <= v < count for v in values):
        raise Rejected(f"{what} names a candidate that there is not")
    if len(set(values)) < len(values):
        raise Rejected(f"{what} names a candidate twice")
    return values


# beam


def check_beam(submission: Submission) -> str:
    """Scores add up along the path; the best of the last level go on."""
    ask, rng = submission.ask(CELL), submission.rng
    for number in range(NUM_CASES):
        found, width = some_candidates(rng, number), rng.randint(1, 5)
        judge_beam(found, width, beam_of(ask, list(found.parents), list(found.log_probs), width))
    return "scores add up along the path, and the best of the last level go on"


def judge_beam(found: Candidates, width: int, answer: Beam) -> None:
    """Raise Rejected, in words, unless the scores and the beam are right."""
    scores, beam = answer
    if not _are_close(scores, found.scores):
        raise Rejected(_why_scores(found, scores))
    level = found.last_level
    wanted = likeliest(level, scores, width)
    if beam == wanted:
        return
    if len(beam) > width:
        raise Rejected("the beam holds more than width candidates")
    if set(beam) - set(level):
        raise Rejected(
            "the beam holds a candidate of an earlier level; only the last level is expanded"
        )
    if len(beam) < len(wanted):
        raise Rejected("the beam holds fewer candidates than width and the last level allow")
    if sorted(beam) == wanted:
        raise Rejected("the beam is not in the order of the candidates")
    if sorted(beam) == likeliest(level, found.log_probs, width):
        raise Rejected("the beam goes by the candidates' own log_probs; it must go by their scores")
    if math.isclose(yield_of(beam, scores), yield_of(wanted, scores), rel_tol=TOLERANCE):
        raise Rejected("of candidates with equal scores the one found first goes on")
    raise Rejected("the beam does not hold the candidates of the highest scores")


def _are_close(values: Sequence[float], wanted: Sequence[float]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        for a, b in zip(values, wanted, strict=True)
    )


def _why_scores(found: Candidates, scores: list[float]) -> str:
    if _are_close(scores, found.log_probs):
        return "scores are the candidates' own log_probs: add those of all their ancestors"
    if _are_close(scores, [math.exp(score) for score in found.scores]):
        return "scores are probabilities; the contract asks for their logarithms"
    return "a score is the sum of log_probs from the first token of its path to itself"


# rerank


def check_rerank(submission: Submission) -> str:
    """The best of all levels, connected, as a tree that can be verified."""
    ask, rng = submission.ask(CELL), submission.rng
    for number in range(NUM_CASES):
        found, num_nodes = some_candidates(rng, number), rng.randint(1, MAX_NODES)
        answer = tree_of(ask, list(found.parents), found.scores, num_nodes)
        judge_tree(found.parents, found.scores, num_nodes, answer)
    return "the tree holds the best candidates of all levels, each behind its parent"


def judge_tree(parents: list[int], scores: list[float], num_nodes: int, answer: Tree) -> None:
    """Raise Rejected, in words, unless these are the best nodes and their links."""
    nodes, parent_ids = answer
    wanted = likeliest(range(len(parents)), scores, num_nodes)
    if len(nodes) > num_nodes:
        raise Rejected(f"the tree has more than num_nodes nodes: {len(nodes)} for {num_nodes}")
    if {parents[node] for node in nodes} - {-1, *nodes}:
        raise Rejected("the tree is not connected: it holds a node without its parent")
    if len(nodes) < len(wanted):
        raise Rejected("the tree is smaller than num_nodes although there are candidates left")
    if sorted(nodes) != wanted:
        raise Rejected(_why_nodes(scores, sorted(nodes), wanted))
    if nodes != wanted:
        raise Rejected(
            "nodes are not in the order of the candidates, in which a parent stands before its "
            "children and the likelier of two siblings first"
        )
    place = {node: index for index, node in enumerate(nodes)} | {-1: -1}
    links = [place[parents[node]] for node in nodes]
    if parent_ids != links:
        raise Rejected(_why_links([parents[node] for node in nodes], links, parent_ids))


def _why_nodes(scores: list[float], nodes: list[int], wanted: list[int]) -> str:
    got, most = yield_of(nodes, scores), yield_of(wanted, scores)
    if math.isclose(got, most, rel_tol=TOLERANCE):
        return "of candidates with equal scores the one found first is in the tree"
    return (
        f"the nodes are not the best of all levels: those would yield {100 * (most / got - 1):.1f} "
        "% more accepted guesses by the drafter's own probabilities"
    )


def _why_links(old: list[int], links: list[int], parent_ids: list[int]) -> str:
    if parent_ids == old:
        return "parent_ids names candidates; it must name places in nodes"
    if parent_ids == [link + 1 for link in links]:
        return "parent_ids counts the root: places in nodes start at 0, and the context is -1"
    return "parent_ids[i] is the place in nodes of the parent of nodes[i], -1 for the context"


# boundary


def check_boundary(submission: Submission) -> str:
    """Edges of the contract; one rejection names all that failed."""
    ask, rng = submission.ask(CELL), submission.rng
    parts = (_small, _certain, _refuses, _changes_no_input, _has_no_memory)
    try_all(parts, ask, rng)
    return "few candidates, certain tokens and impossible input are handled"


def _small(ask: Question, rng: random.Random) -> None:
    if beam_of(ask, [-1], [-0.5], 4) != ([-0.5], [0]):
        raise Rejected("a single candidate is the beam, however wide that may be")
    if tree_of(ask, [-1, -1, 0], [-0.5, -1.0, -1.5], 9) != ([0, 1, 2], [-1, -1, 0]):
        raise Rejected("where there are fewer candidates than num_nodes all of them are the tree")


def _certain(ask: Question, rng: random.Random) -> None:
    """A chain of certain tokens: all scores are 0, and a cut must take it from its beginning."""
    width, length = rng.randint(2, 4), rng.randint(4, 7)
    parents, scores = [-1] * width, [0.0] + [-9.0] * (width - 1)
    for level in range(1, length):
        parents += [width * (level - 1)] * width
        scores += [0.0] + [-9.0] * (width - 1)
    cut = rng.randint(2, length - 1)
    wanted = [width * level for level in range(cut)], list(range(-1, cut - 1))
    if tree_of(ask, parents, scores, cut) != wanted:
        raise Rejected("of certain tokens in a row, all of score 0, the first ones are kept")


def _refuses(ask: Question, rng: random.Random) -> None:
    nan = math.nan
    bad: dict[str, tuple[str, list[int], list[float], int]] = {
        "no candidates": (GROW, [], [], 2),
        "lists of different lengths": (GROW, [-1, -1], [-0.5], 2),
        "a parent that does not stand before its child": (GROW, [-1, 1], [-0.5, -0.5], 2),
        "a log_prob above 0": (GROW, [-1, -1], [-0.5, 0.5], 2),
        "a log_prob that is NaN": (GROW, [-1, -1], [-0.5, nan], 2),
        "a width below 1": (GROW, [-1, -1], [-0.5, -0.5], 0),
        "scores of another length": (RERANK, [-1, -1], [-0.5], 2),
        "a score above its parent's": (RERANK, [-1, -1, 0], [-1.0, -2.0, -0.5], 2),
        "a score that is NaN": (RERANK, [-1, -1], [-0.5, nan], 1),
        "num_nodes below 1": (RERANK, [-1, -1], [-0.5, -0.5], 0),
    }
    for what, (name, *arguments) in bad.items():
        ask.must_refuse(name, what, *arguments)


def _changes_no_input(ask: Question, rng: random.Random) -> None:
    found = random_candidates(rng, 3, 3, is_coarse=False)
    for name, values in ((GROW, found.log_probs), (RERANK, found.scores)):
        arguments = list(found.parents), list(values), 3
        if ask.call(name, *arguments).args != arguments:
            raise Rejected(f"{name} changes the lists that it is given")


def _has_no_memory(ask: Question, rng: random.Random) -> None:
    some = [some_candidates(rng, number) for number in range(6)]

    def asked(found: Candidates) -> tuple[Beam, Tree]:
        parents = found.parents
        beam = beam_of(ask, list(parents), list(found.log_probs), 2)
        return beam, tree_of(ask, list(parents), found.scores, 5)

    first = [asked(found) for found in some]
    if [asked(found) for found in reversed(some)] != first[::-1]:
        raise Rejected("another answer is given to the same question after other calls")


CHECKS: dict[str, Callable[[Submission], str]] = {
    "beam": check_beam,
    "rerank": check_rerank,
    "boundary": check_boundary,
}
