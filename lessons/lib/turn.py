"""What one request does in one step: it computes a chunk of its prompt, or it verifies a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from kernels.graphs import GraphKey
from lessons.lib.config import ModelConfig
from lessons.lib.draft.dspark_planner import VerifyLength
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.metrics import RoundRecord, StepClock, StepRecord
from lessons.lib.model.features import FeatureCapture
from lessons.lib.sequence import Request
from lessons.lib.tree import DraftTree
from lessons.lib.tree_verify import TreeVerification
from lessons.lib.verify_round import VerifyRound


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
    def chunk(cls, request: Request, num_rows: int) -> Turn:
        """The next num_rows tokens of its prompt."""
        start = request.kv.length
        chunk = request.token_ids[start : start + num_rows]
        ends_prompt = start + num_rows == len(request.token_ids)
        return cls(request, DraftTree.chain(chunk), None, int(ends_prompt))

    @classmethod
    def round(cls, request: Request, proposal: DraftProposal) -> Turn:
        """A proposal behind the last token; an empty one where nothing is drafted."""
        tree = proposal.to_tree(request.token_ids[-1])
        return cls(request, tree, proposal, tree.num_nodes)

    def shortened(self, length: VerifyLength) -> Turn:
        """The same chain with fewer drafts to compute, and fewer yet that may be accepted."""
        assert self.proposal is not None
        tree = self.proposal.head(length.num_rows).to_tree(self.tree.token_ids[0])
        acceptable = self.proposal.head(length.num_acceptable)
        return replace(self, tree=tree, proposal=acceptable, num_logits=tree.num_nodes)

    @property
    def acceptable_tree(self) -> DraftTree:
        """The rows that acceptance reads: of a chunk the last, of a shortened chain its head."""
        if self.proposal is None:
            return DraftTree.chain(self.tree.token_ids[-1:])
        num_read = 1 + len(self.proposal.token_ids)
        is_whole = num_read == self.tree.num_nodes
        return self.tree if is_whole else DraftTree.chain(self.tree.token_ids[:num_read])

    def verify(
        self, logits: torch.Tensor, target_token_ids: torch.Tensor, verify_round: VerifyRound
    ) -> TreeVerification:
        """The tokens it yields and the path that stays; for the end of a prompt the first token.

        logits [num_logits, vocab], target_token_ids [num_logits] their argmax.
        """
        proposal, tree = self.proposal or DraftProposal([]), self.acceptable_tree
        request, position = self.request, len(self.request.token_ids)
        rows = logits[: tree.num_nodes], target_token_ids[: tree.num_nodes]
        return verify_round(proposal, tree, *rows, request.sampling, request.random, position)

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

    def note_memory(self, config: ModelConfig, element_bytes: int) -> None:
        """Raise the request's peak of what speculation needs: see `GenerationResult`."""
        request, proposal = self.request, self.proposal
        assert request.proposer is not None and proposal is not None
        laws = 0 if request.sampling.is_greedy else 4 * (1 + (proposal.draft_probs is not None))
        row = config.vocab_size * (element_bytes + laws)
        slots = len(proposal.token_ids) * (config.kv_bytes_per_token(element_bytes) + row)
        peak = slots + request.proposer.memory_bytes
        request.extra_memory_bytes = max(request.extra_memory_bytes, peak)

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


def record_step(
    turns: Sequence[Turn],
    emitted: Sequence[int],
    clock: StepClock,
    preempted: tuple[str, ...],
    num_pages: int,
    page_bytes: int,
    bucket: GraphKey | None,
) -> StepRecord:
    """Close a step: give every request its times and its round."""
    rounds: dict[str, RoundRecord] = {}
    prefilled: dict[str, int] = {}
    for turn, count in zip(turns, emitted, strict=True):
        request = turn.request
        if count and request.first_token_at is None:
            request.first_token_at = clock.last
        if request.finish_reason:
            request.finished_at = clock.last
        if turn.proposal is None:
            prefilled[request.request_id] = turn.tree.num_nodes
        else:
            rounds[request.request_id] = turn.record(count, clock.ms)
            request.rounds.append(rounds[request.request_id])
    sizes = [turn.tree.num_nodes for turn in turns]
    return StepRecord(
        rounds=rounds,
        prefilled=prefilled,
        finished=tuple(t.request.request_id for t in turns if t.request.finish_reason),
        preempted=preempted,
        phase_ms=clock.ms,
        num_requests=len(turns),
        num_rows=sum(sizes),
        max_query_len=max(sizes),
        num_pages=num_pages,
        kv_bytes=num_pages * page_bytes,
        bucket=bucket,
    )
