"""EAGLE-3 (arXiv 2503.01840): drafts from the target's own features, one layer deep.

A round costs 1 pass over the positions that the last one committed, with the target's real features
(it also gives the first guesses), and one more pass for each further level. What the target saw
replaces what the drafter had guessed: its KV never rests on a guess for longer than a round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.beam_tree import BeamTree
from lessons.lib.draft.chain import draft_chain
from lessons.lib.draft.draft_kv import DraftKV
from lessons.lib.draft.lockstep import Drafting, SharedProposer, Steps, by_row
from lessons.lib.draft.one_layer import OneLayerNet
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.sampling import SeededRandom


class Eagle3Proposer(SharedProposer):
    """Draft state of one request; the network may be shared by all of them."""

    def __init__(
        self,
        net: OneLayerNet,
        embedding: torch.Tensor,
        sampling: SamplingParams | None = None,
        width: int = 1,
        num_levels: int = 6,
        new_tree: Callable[[int], BeamTree] = BeamTree,
    ) -> None:
        """embedding: the target's [vocab, hidden], in the dtype of the network; a network that has
        an embedding of its own uses that.

        width 1 drafts a chain: the likeliest tokens, or with a temperature in `sampling` tokens
        drawn by it, with their laws. A larger width drafts trees at most num_levels deep, grown
        by new_tree(width).
        """
        if width < 1 or num_levels < 1:
            raise InputError(f"width and levels must be 1 or more, got {width} and {num_levels}")
        self.feature_layers = net.feature_layers
        self.num_passes = 0  # of the layer, since the request began
        self._net = net
        self._embedding = embedding if net.embed_tokens is None else net.embed_tokens.weight
        self._sampling = sampling or SamplingParams()
        self._random = SeededRandom(self._sampling.seed, is_draft=True)
        self._width, self._num_levels, self._new_tree = width, num_levels, new_tree
        self._weight_bytes = sum(p.numel() * p.element_size() for p in net.parameters())
        self.forget()

    @property
    def memory_bytes(self) -> int:
        """The network, the draft KV, and features that wait for the next pass."""
        waiting = sum(part.numel() * part.element_size() for part, _ in self._waiting)
        return self._weight_bytes + self._kv.num_bytes + waiting

    def drafting(self, context_ids: Sequence[int], num_draft_tokens: int) -> Drafting:
        """A chain or tree behind the context, all of which but its last token the target has
        shown the features of."""
        hidden = yield from self._extend()
        known = self._kv.length
        assert known == len(context_ids) - 1, f"features of {known} of {len(context_ids)} tokens"
        try:
            if self._width > 1:
                return (yield from self._draft_tree(hidden, num_draft_tokens))
            if self._sampling.is_greedy:
                return (yield from self._draft_chain(hidden, num_draft_tokens))
            return (yield from self._draw_chain(hidden, num_draft_tokens))
        finally:
            self._kv.truncate(known)

    def observe(self, token_ids: Sequence[int]) -> None:
        """Nothing to do: the features of the committed positions say more."""

    def observe_features(
        self, start: int, features: torch.Tensor, next_token_ids: Sequence[int]
    ) -> None:
        """Keep them for the next pass, each with the token behind it."""
        if start == 0:
            self._restart()
        known = self._kv.length + sum(len(tokens) for _, tokens in self._waiting)
        assert start == known, f"features from position {start}, known up to {known}"
        self._waiting.append((features, list(next_token_ids)))

    def forget(self) -> None:
        """The request is over: release its state."""
        self._restart()
        self._last_hidden: torch.Tensor | None = None

    def _restart(self) -> None:
        self._kv = DraftKV(*self._net.kv_shape, self._embedding)
        self._waiting: list[tuple[torch.Tensor, list[int]]] = []

    def _extend(self) -> Steps[torch.Tensor]:
        """Build draft KV of what was committed -> output of the last position [1, hidden]."""
        if self._waiting:
            features = torch.cat([part for part, _ in self._waiting])
            tokens = [token for _, tokens in self._waiting for token in tokens]
            start, count = self._kv.length, len(tokens)
            seen = torch.ones(count, start + count, dtype=torch.bool, device=features.device)
            hidden = yield by_row(self._net.fuse, features)
            positions = torch.arange(start, start + count)
            hidden = yield from self._pass(tokens, hidden, positions, seen.tril(start))
            self._last_hidden, self._waiting = hidden[-1:], []
        assert self._last_hidden is not None, "propose before any features"
        return self._last_hidden

    def _pass(
        self,
        token_ids: Sequence[int],
        hidden: torch.Tensor,
        positions: torch.Tensor,
        seen: torch.Tensor | None,
    ) -> Steps[torch.Tensor]:
        """One run of the layer: token_ids [n] behind positions [n], hidden [n, hidden] of those
        positions, seen [n, kv length + n] bool -> output rows [n, hidden]; their KV is kept."""
        self.num_passes += 1
        device = hidden.device
        embeds = F.embedding(torch.tensor(token_ids, device=device), self._embedding)
        inputs = embeds, hidden, positions.to(device)
        rows, query, key, value = yield by_row(self._net.project, *inputs)
        self._kv.append(key, value)
        mixed = self._kv.attend(query, seen, query.shape[-1] ** -0.5)
        return (yield by_row(self._net.finish, rows, mixed))

    def _next(self, token_id: int, hidden: torch.Tensor) -> Steps[torch.Tensor]:
        """One step of a chain, which sees everything before it."""
        return self._pass([token_id], hidden, torch.tensor([self._kv.length]), None)

    def _draft_chain(self, hidden: torch.Tensor, count: int) -> Drafting:
        tokens: list[int] = []
        while True:
            _, best = yield by_row(self._net.top_k, hidden, settings=(1,))
            tokens.append(int(best))
            if len(tokens) == count:
                return DraftProposal(tokens)
            hidden = yield from self._next(tokens[-1], hidden)

    def _draw_chain(self, hidden: torch.Tensor, count: int) -> Drafting:
        """Tokens drawn from the drafter's law under the request's own temperature and filters."""

        def following(token_id: int) -> Steps[torch.Tensor]:
            nonlocal hidden
            hidden = yield from self._next(token_id, hidden)
            return (yield by_row(self._net.target_logits, hidden))[0]

        first = (yield by_row(self._net.target_logits, hidden))[0]
        settings = self._sampling, self._random, self._kv.length + 1
        return (yield from draft_chain(first, following, count, *settings))

    def _draft_tree(self, hidden: torch.Tensor, num_nodes: int) -> Drafting:
        """Level by level; a row sees the committed positions, its ancestors and itself."""
        width = min(self._width, len(self._net.d2t))
        tree, known = self._new_tree(width), self._kv.length
        tree.expand(*(yield by_row(self._net.top_k, hidden, settings=(width,))))
        hidden = hidden.expand(len(tree.beam), -1)
        guessed = torch.zeros(len(tree.beam), 0, dtype=torch.bool)  # rows of guesses each one sees
        for level in range(min(self._num_levels, num_nodes) - 1):
            rows, previous = len(tree.beam), tree.beam
            guessed = torch.cat([guessed, torch.eye(rows, dtype=torch.bool)], 1)
            seen = torch.cat([torch.ones(rows, known, dtype=torch.bool), guessed], 1)
            positions = torch.full((rows,), known + level)
            seen = seen.to(hidden.device)
            hidden = yield from self._pass(tree.beam_tokens, hidden, positions, seen)
            tree.expand(*(yield by_row(self._net.top_k, hidden, settings=(width,))))
            parents = torch.tensor(tree.beam_parents(previous), dtype=torch.int64)
            hidden, guessed = hidden[parents.to(hidden.device)], guessed[parents]
        return tree.select(num_nodes)
