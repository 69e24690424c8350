"""What one request does in one step: it computes a chunk of its prompt, or it verifies a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.metrics import RoundRecord
from lessons.lib.model.features import FeatureCapture
from lessons.lib.sequence import Request
from lessons.lib.tree import DraftTree
from lessons.lib.tree_verify import TreeVerification
from lessons.lib.verify_round import verify_round


@dataclass(frozen=True)
class Turn:
    """tree: the rows of the forward; for a chunk a chain. proposal: None for a chunk.
    num_logits: of the tree's rows the last so many are scored; 0 inside a prompt, 1 at its end.
    """

    request: Request
    tree: DraftTree
    proposal: DraftProposal | None
    num_logits: int

    @classmethod
    def take(cls, request: Request, num_rows: int) -> Turn:
        """At most num_rows tokens of the prompt, or else a proposal behind the last token."""
        if request.num_prefill:
            start = request.kv.length
            chunk = request.token_ids[start : start + num_rows]
            ends_prompt = start + num_rows == len(request.token_ids)
            return cls(request, DraftTree.chain(chunk), None, int(ends_prompt))
        proposal, limit = DraftProposal([]), request.num_draft_tokens
        if request.proposer is not None and limit:
            proposal = request.proposer.propose(request.token_ids, limit)
            assert len(proposal.token_ids) <= limit, f"{len(proposal.token_ids)} drafts of {limit}"
        tree = proposal.to_tree(request.token_ids[-1])
        return cls(request, tree, proposal, tree.num_nodes)

    def verify(self, logits: torch.Tensor, target_token_ids: torch.Tensor) -> TreeVerification:
        """The tokens it yields and the path that stays; for the end of a prompt the first token.

        logits [num_logits, vocab], target_token_ids [num_logits] their argmax.
        """
        proposal, tree = self.proposal, self.tree
        if proposal is None:
            proposal, tree = DraftProposal([]), DraftTree.chain(tree.token_ids[-1:])
        request, position = self.request, len(self.request.token_ids)
        return verify_round(
            proposal, tree, logits, target_token_ids, request.sampling, request.random, position
        )

    def path(self, outcome: TreeVerification | None, emitted: int) -> Sequence[int]:
        """Rows whose KV stays: all of a chunk, of a round as many as tokens were emitted."""
        if outcome is None or self.proposal is None:
            return range(self.tree.num_nodes)
        return outcome.accepted_path[:emitted]

    def feed(self, capture: FeatureCapture, first_row: int, path: Sequence[int]) -> None:
        """Hand a feature proposer the hidden states of the rows that stayed.

        Call it after the commit; first_row: where this turn's rows begin in the forward.
        """
        request, proposer = self.request, self.request.feature_proposer
        if proposer is None or request.finish_reason:
            return
        start, end = request.kv.length - len(path), request.kv.length
        features = capture.rows(proposer.feature_layers, [first_row + node for node in path])
        proposer.observe_features(start, features, request.token_ids[start + 1 : end + 1])

    def record(self, emitted: int, ms: dict[str, float]) -> RoundRecord:
        """The round, `ms` being the times of the step by phase."""
        assert self.proposal is not None
        return RoundRecord(
            proposed=len(self.proposal.token_ids),
            accepted=emitted - 1,
            emitted=emitted,
            draft_ms=ms["draft"],
            verify_ms=ms["verify"],
            overhead_ms=ms["accept"] + ms["commit"] + ms["rest"],
            tree_depth=max(self.tree.depths) if self.proposal.parent_ids else None,
        )
