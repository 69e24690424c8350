"""How much a step drafts and verifies, where that is decided for a batch and not by each request.

A depth policy is asked before drafting and shortens it; a verify planner after it, and shortens the
verification alone. Without either a request drafts to its own depth and all of it is verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lessons.lib.draft.adaptive import DepthPolicy
from lessons.lib.draft.dspark_planner import VerifyMode, VerifyPlanner
from lessons.lib.draft.lockstep import Question, propose_all
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.sequence import Request
from lessons.lib.turn import Turn


@dataclass(frozen=True)
class Pacing:
    """Both look at all requests of an engine, so each belongs to one engine.

    Under either, what a request drafts depends on its neighbours; the law of its text does not.
    """

    depth_policy: DepthPolicy | None = None
    verify_planner: VerifyPlanner | None = None

    def take(self, work: Sequence[tuple[Request, int]]) -> list[Turn]:
        """The turns of a step; `work` is what the scheduler gives: request, most rows."""
        depth = None
        if self.depth_policy is not None:
            depth = self.depth_policy.depth(sum(not request.num_prefill for request, _ in work))
        proposals = drafted([r for r, _ in work if not r.num_prefill], depth)
        turns = [
            Turn.chunk(request, num_rows)
            if request.num_prefill
            else Turn.round(request, proposals.get(request) or DraftProposal([]))
            for request, num_rows in work
        ]
        planner = self.verify_planner
        if planner is None or planner.mode is VerifyMode.STATIC:
            return turns
        return self._shorten(turns, planner)

    def observe(self, turns: Sequence[Turn], emitted: Sequence[int], step_ms: float) -> None:
        """What each turn emitted, and the time of the step; a round's last token is no draft."""
        rounds = [
            (len(turn.proposal.token_ids), count - 1)
            for turn, count in zip(turns, emitted, strict=True)
            if turn.proposal is not None
        ]
        if self.depth_policy is not None and rounds:
            is_pure = len(rounds) == len(turns)
            self.depth_policy.observe(rounds, step_ms if is_pure else None)

    def _shorten(self, turns: Sequence[Turn], planner: VerifyPlanner) -> list[Turn]:
        blocks = {
            turn.request: turn.proposal.confidences if turn.proposal.token_ids else []
            for turn in turns
            if turn.proposal is not None
        }
        lengths = planner.plan(blocks)
        return [
            turn if turn.proposal is None else turn.shortened(lengths[turn.request])
            for turn in turns
        ]


def drafted(requests: Sequence[Request], max_depth: int | None) -> dict[Request, DraftProposal]:
    """What the proposers of requests that decode propose, together; at most max_depth drafts each,
    where that is given, and never more than the request's own depth."""
    asked: dict[Request, Question] = {}
    for request in requests:
        own = request.num_draft_tokens
        limit = own if max_depth is None else min(own, max_depth)
        if request.proposer is not None and limit:
            asked[request] = request.proposer, request.token_ids, limit
    made = dict(zip(asked, propose_all(list(asked.values())), strict=True))
    for request, (_, _, limit) in asked.items():
        count = len(made[request].token_ids)
        assert count <= limit, f"{count} drafts of {limit}"
    return made
