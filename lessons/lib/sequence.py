"""One request from its prompt to its result, and what the engine must know of it in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kernels.kv_pool import SequenceKV
from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.proposer import FeatureProposer, Proposer
from lessons.lib.metrics import RoundRecord
from lessons.lib.sampling import SeededRandom
from lessons.lib.stopping import find_stop, safe_length, tokens_until_stop


@dataclass(frozen=True)
class GenerationResult:
    """Tokens of one request and the record of how they came about; times in milliseconds.

    The first token belongs to the prefill; every later one to a round. Times are those of the steps
    the request took part in: at batch 1 its own, in a batch shared with its neighbours.
    `extra_memory_bytes` is what speculation needs at its peak beyond target-only, by count and not
    by sampling an allocator: KV slots of the draft tokens, their rows of logits and laws, and what
    the proposer holds. Temporary activations of the wider forward are left out.
    `text` ends before a stop string; `finish_reason` is "stop", "length" or "abort".
    """

    token_ids: list[int]
    rounds: list[RoundRecord]
    prefill_ms: float
    decode_ms: float
    extra_memory_bytes: int
    text: str
    finish_reason: str


@dataclass(eq=False)
class Request:
    """State of one request. `token_ids` are prompt and output; the pool holds KV of the first
    `kv.length` of them. While it decodes, only the last one has none: the root of the next round.
    """

    request_id: str
    token_ids: list[int]
    max_len: int
    sampling: SamplingParams
    proposer: Proposer | None
    depth: int
    stop_ids: frozenset[int]
    stop: tuple[str, ...]
    decode: Callable[[Sequence[int]], str]
    kv: SequenceKV = field(default_factory=SequenceKV)
    rounds: list[RoundRecord] = field(default_factory=list)
    finish_reason: str | None = None
    extra_memory_bytes: int = 0
    last_step: int = 0  # the scheduler's: when it last had a turn
    started_at: float | None = None  # seconds, by the engine's clock
    first_token_at: float | None = None
    finished_at: float | None = None

    def __post_init__(self) -> None:
        self.prompt_len = len(self.token_ids)
        self.random = SeededRandom(self.sampling.seed)

    @property
    def output_ids(self) -> list[int]:
        """Tokens generated so far."""
        return self.token_ids[self.prompt_len :]

    @property
    def num_left(self) -> int:
        """Tokens it may still generate."""
        return 0 if self.finish_reason else self.max_len - len(self.token_ids)

    @property
    def num_prefill(self) -> int:
        """Tokens to compute before it can decode. After a preemption the output is among them, but
        for its last token, which is the root of the next round."""
        has_output = len(self.token_ids) > self.prompt_len
        return len(self.token_ids) - has_output - self.kv.length

    @property
    def num_draft_tokens(self) -> int:
        """Most drafts of the next round. One token comes free with every round, so drafting more
        than the rest less one is waste."""
        return min(self.depth, self.num_left - 1) if self.proposer is not None else 0

    @property
    def feature_proposer(self) -> FeatureProposer | None:
        """Its proposer where that one reads hidden states of the target, and drafts at all."""
        is_reader = self.depth > 0 and isinstance(self.proposer, FeatureProposer)
        return self.proposer if is_reader else None  # type: ignore[return-value]

    def commit(self, token_ids: Sequence[int]) -> int:
        """Append tokens up to a stop or the length limit; how many were kept (at least one)."""
        kept = list(token_ids[: self.num_left])
        for index, token_id in enumerate(kept):
            if token_id in self.stop_ids:
                kept, self.finish_reason = kept[: index + 1], "stop"
                break
        self.token_ids += kept
        if self.stop:
            count = tokens_until_stop(self.output_ids, len(kept), self.stop, self.decode)
            if count is not None:
                del self.token_ids[len(self.token_ids) - len(kept) + count :]
                kept, self.finish_reason = kept[:count], "stop"
        if not self.num_left and self.finish_reason is None:
            self.finish_reason = "length"
        return len(kept)

    def text(self) -> str:
        """Output without the stop string; while it runs, only what can no longer change."""
        text = self.decode(self.output_ids)
        end = find_stop(text, self.stop) if self.stop else None
        if end is None:
            end = len(text) if self.finish_reason else safe_length(text, self.stop)
        return text[:end]

    def result(self) -> GenerationResult:
        """What there is of it now; times are zero for what has not begun."""
        start = self.started_at or 0.0
        end = self.finished_at or self.first_token_at or start
        first = self.first_token_at or end
        return GenerationResult(
            token_ids=self.output_ids,
            rounds=self.rounds,
            prefill_ms=(first - start) * 1e3,
            decode_ms=(end - first) * 1e3,
            extra_memory_bytes=self.extra_memory_bytes,
            text=self.text(),
            finish_reason=self.finish_reason or "unfinished",
        )


def check_request(
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    depth: int,
    stop: Sequence[str],
    token_budget: int,
    num_kv_tokens: int,
    max_context: int,
) -> None:
    """Raise InputError for a request that an engine of these limits can never run."""
    if not prompt_ids:
        raise InputError("the prompt holds no tokens")
    if max_new_tokens < 1:
        raise InputError(f"max_new_tokens must be 1 or more, got {max_new_tokens}")
    if depth < 0:
        raise InputError(f"depth must be 0 or more, got {depth}")
    if "" in stop:
        raise InputError("a stop string must not be empty")
    if 1 + depth > token_budget:
        raise InputError(
            f"depth {depth} needs a token budget of {1 + depth}, the engine has {token_budget}"
        )
    asked = f"prompt of {len(prompt_ids)} tokens and {max_new_tokens} new ones exceed"
    if len(prompt_ids) + max_new_tokens > max_context:
        raise InputError(f"{asked} the model's context of {max_context}")
    if len(prompt_ids) + max_new_tokens > num_kv_tokens:
        raise InputError(
            f"{asked} the KV pool of {num_kv_tokens}; give the engine a larger num_kv_tokens"
        )
