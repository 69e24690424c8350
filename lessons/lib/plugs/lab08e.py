"""Lab 8E: the MTP proposer runs the passes that a student's wiring asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch

from kernels.runtime import InputError
from lessons.lib.draft.lockstep import in_lockstep
from lessons.lib.draft.mtp import MtpProposer
from lessons.lib.draft.mtp_net import MtpNet
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.model.llama import LlamaModel

TARGET, OWN = "target", "own"
MAX_POSITION = 2**31  # what a wiring may ask for; the text ends long before
Row = tuple[int, str, int, int]  # token_id, whose state, which one, position
# (token_ids, draft_ids, num_firm, num_guessed) -> (num_kept, rows)
Wire = Callable[[list[int], list[int], int, int], tuple[int, Sequence[Row]]]


class WiredMtpProposer(MtpProposer):
    """Chains of the likeliest tokens. The wiring says what each pass computes; network, KV and the
    target's states stay here, and it is asked with plain data only."""

    _states: torch.Tensor  # the target's, behind its final norm [positions, hidden]
    _outputs: torch.Tensor  # the module's, one of each row of its KV [rows, hidden]
    _num_firm: int  # rows at the front that first passes left

    def __init__(self, net: MtpNet, target: LlamaModel, wire: Wire) -> None:
        """The network may be shared by all requests of `target`."""
        super().__init__(net, target)
        self._wire = wire

    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """A chain: the first drafts of `drafts`."""
        return DraftProposal(list(islice(self.drafts(context_ids), num_draft_tokens)))

    @torch.inference_mode()
    def drafts(self, context_ids: Sequence[int]) -> Iterator[int]:
        """Draft after draft of a round, for as long as somebody takes them: every pass gives one,
        from the output of its last row.

        Raises InputError where the wiring asks for what is not there.
        """
        found: list[int] = []
        while True:
            counts = self._num_firm, self._kv.length - self._num_firm
            answer = self._wire(list(context_ids), list(found), *counts)
            self._run(*checked(answer), is_first=not found)
            found.append(int(self._net.top_k(self._outputs[-1:], 1)[1]))
            yield found[-1]

    def observe_features(
        self, start: int, features: torch.Tensor, next_token_ids: Sequence[int]
    ) -> None:
        """Keep the target's states: a wiring may ask for any of them."""
        if start == 0:
            self._restart()
        assert start == len(self._states), f"features from {start}, known to {len(self._states)}"
        self._states = torch.cat([self._states, self._net.fuse(features)])

    def _restart(self) -> None:
        super()._restart()
        none = self._embedding.new_empty(0, self._embedding.shape[1])
        self._states, self._outputs, self._num_firm = none, none, 0

    def _run(self, num_kept: int, rows: Sequence[Row], is_first: bool) -> None:
        """Drop the KV behind num_kept, run the rows, keep their outputs beside their KV."""
        if not 0 <= num_kept <= self._kv.length:
            raise InputError(f"num_kept is {num_kept}, and the module has {self._kv.length} rows")
        if num_kept + len(rows) == 0:
            raise InputError("a pass without rows, and no row before it to draft from")
        for token_id, _, _, position in rows:
            if not (0 <= token_id < len(self._embedding) and 0 <= position < MAX_POSITION):
                raise InputError(f"there is no token {token_id}, or no position {position}")
        self._kv.truncate(num_kept)
        self._outputs = self._outputs[:num_kept]
        if rows:
            hidden = torch.stack([self._state(whose, index) for _, whose, index, _ in rows])
            seen = torch.ones(len(rows), num_kept + len(rows), dtype=torch.bool).tril(num_kept)
            positions = torch.tensor([position for *_, position in rows])
            tokens = [token_id for token_id, *_ in rows]
            steps = self._pass(tokens, hidden, positions, seen.to(hidden.device))
            (outputs,) = in_lockstep([steps])
            self._outputs = torch.cat([self._outputs, outputs])
        # What the first pass of a round leaves counts as firm, whatever it rests on.
        self._num_firm = self._kv.length if is_first else min(self._num_firm, num_kept)

    def _state(self, whose: str, index: int) -> torch.Tensor:
        states = {TARGET: self._states, OWN: self._outputs}.get(whose)
        if states is None:
            raise InputError(f"a state is {TARGET!r} or {OWN!r}, not {whose!r}")
        if not 0 <= index < len(states):
            raise InputError(f"there is no state {whose} {index}, only {len(states)} of them")
        return states[index]


def checked(answer: Any) -> tuple[int, list[Row]]:
    """(num_kept, rows) in the contract's shape. Raises InputError."""
    try:
        num_kept, rows = answer
        plain = [(int(token), str(whose), int(i), int(p)) for token, whose, i, p in rows]
        return int(num_kept), plain
    except (TypeError, ValueError) as error:
        raise InputError(
            "mtp_rows must return (num_kept, rows), rows as (token_id, whose, index, position)"
        ) from error
