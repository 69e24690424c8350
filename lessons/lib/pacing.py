"""How much a step drafts and verifies, where that is decided for a batch and not by each request.

A depth policy is asked before drafting and shortens it; a verify planner after it, and shortens the
verification alone. Without either a request drafts to its own depth and all of it is verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lessons.lib.draft.adaptive import DepthPolicy
from lessons.lib.draft.dspark_planner import VerifyMode, VerifyPlanner
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
        turns = [Turn.take(request, num_rows, depth) for request, num_rows in work]
        planner = self.verify_planner
        if planner is None or planner.mode is VerifyMode.STATIC:
            return turns
        return self._shorten(turns, planner)

    def observe(self, turns: Sequence[Turn], emitted: Sequence[int]) -> None:
        """What each turn emitted; a round's last token is not a draft."""
        if self.depth_policy is None:
            return
        rounds = [
            (turn.proposal, count)
            for turn, count in zip(turns, emitted, strict=True)
            if turn.proposal is not None
        ]
        if rounds:
            accepted = [count - 1 for proposal, count in rounds if proposal.token_ids]
            self.depth_policy.observe(len(rounds), accepted)

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
