"""The loop: propose, verify, accept, commit or roll back, until the request is done.

Who owns what: the proposer its draft state, the KV cache the target's keys and values, the
verification rules nothing. The engine owns the token list and the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch

from kernels.runtime import InputError, synchronize
from lessons.lib.config import SamplingParams
from lessons.lib.draft.proposer import DraftProposal, Proposer
from lessons.lib.metrics import RoundRecord
from lessons.lib.model.llama import KVCache, LlamaModel
from lessons.lib.model.tokenizer import Tokenizer
from lessons.lib.sampling import SeededRandom, logits_to_probs
from lessons.lib.verify import Verification, verify_delta, verify_greedy, verify_sampled

PREFILL_CHUNK = 512  # tokens a prefill forward takes at most; bounds the mask and activations


@dataclass(frozen=True)
class GenerationResult:
    """Tokens of one request and the record of how they came about; times in milliseconds.

    The first token belongs to the prefill; every later one to a round. `extra_memory_bytes` is what
    speculation needs at its peak beyond target-only, by count and not by sampling an allocator: KV
    slots of the draft tokens, their rows of logits and laws, and what the proposer holds.
    Temporary activations of the wider forward are left out.
    """

    token_ids: list[int]
    rounds: list[RoundRecord]
    prefill_ms: float
    decode_ms: float
    extra_memory_bytes: int


@dataclass
class _Request:
    """State of the running request. The cache always lacks exactly the last token of `context`."""

    context: list[int]
    prompt_len: int
    max_len: int
    sampling: SamplingParams
    random: SeededRandom
    cache: KVCache
    stop_ids: frozenset[int]
    rounds: list[RoundRecord] = field(default_factory=list)
    is_stopped: bool = False
    extra_memory_bytes: int = 0

    @property
    def num_left(self) -> int:
        return 0 if self.is_stopped else self.max_len - len(self.context)

    def commit(self, token_ids: Sequence[int]) -> int:
        """Append tokens up to a stop token or the length limit; how many were kept."""
        kept = list(token_ids[: self.num_left])
        for index, token_id in enumerate(kept):
            if token_id in self.stop_ids:
                kept, self.is_stopped = kept[: index + 1], True
                break
        self.context += kept
        return len(kept)


class Engine:
    """Runs one request at a time on a loaded target model."""

    def __init__(self, model: LlamaModel, tokenizer: Tokenizer) -> None:
        self.model = model
        self.tokenizer = tokenizer

    @torch.inference_mode()
    def generate(
        self,
        prompt_ids: Sequence[int],
        max_new_tokens: int,
        sampling: SamplingParams | None = None,
        proposer: Proposer | None = None,
        depth: int = 0,
        ignore_eos: bool = False,
    ) -> GenerationResult:
        """Continue a prompt by at most max_new_tokens (at least one).

        proposer None or depth 0 is target-only decoding. `depth` is the most draft tokens a round
        may verify; a round verifies what was proposed and decodes one token when nothing was.
        Output law and, in float32, greedy tokens do not depend on proposer or depth.
        """
        self._check(prompt_ids, max_new_tokens, depth)
        stop_ids = frozenset() if ignore_eos else self.tokenizer.eos_token_ids
        request = self._start(prompt_ids, max_new_tokens, sampling or SamplingParams(), stop_ids)
        started = self._now()
        request.commit(self._prefill(request).token_ids)
        prefilled = self._now()
        try:
            while request.num_left:
                self._round(request, proposer, depth)
        finally:
            if proposer is not None:
                proposer.forget()
        return GenerationResult(
            token_ids=request.context[request.prompt_len :],
            rounds=request.rounds,
            prefill_ms=(prefilled - started) * 1e3,
            decode_ms=(self._now() - prefilled) * 1e3,
            extra_memory_bytes=request.extra_memory_bytes,
        )

    def _check(self, prompt_ids: Sequence[int], max_new_tokens: int, depth: int) -> None:
        if not prompt_ids:
            raise InputError("the prompt holds no tokens")
        if max_new_tokens < 1:
            raise InputError(f"max_new_tokens must be 1 or more, got {max_new_tokens}")
        if depth < 0:
            raise InputError(f"depth must be 0 or more, got {depth}")
        needed, limit = len(prompt_ids) + max_new_tokens, self.model.config.max_context
        if needed > limit:
            raise InputError(
                f"prompt of {len(prompt_ids)} tokens and {max_new_tokens} new ones exceed "
                f"the model's context of {limit}"
            )

    def _start(
        self,
        prompt_ids: Sequence[int],
        max_new_tokens: int,
        sampling: SamplingParams,
        stop_ids: frozenset[int],
    ) -> _Request:
        max_len = len(prompt_ids) + max_new_tokens
        return _Request(
            context=list(prompt_ids),
            prompt_len=len(prompt_ids),
            max_len=max_len,
            sampling=sampling,
            random=SeededRandom(sampling.seed),
            cache=self.model.new_cache(batch=1, max_len=max_len),
            stop_ids=stop_ids,
        )

    def _prefill(self, request: _Request) -> Verification:
        """Run the prompt and draw the first token."""
        prompt = torch.tensor([request.context], device=self.model.device)
        for chunk in prompt.split(PREFILL_CHUNK, dim=1):
            logits = self.model.forward(chunk, request.cache, num_logits=1)
        return self._verify(request, DraftProposal([]), logits[0])

    def _round(self, request: _Request, proposer: Proposer | None, depth: int) -> None:
        started = self._now()
        # One token comes free with every round, so drafting more than the rest less one is waste.
        num_draft_tokens = min(depth, request.num_left - 1)
        proposal = DraftProposal([])
        if proposer is not None and num_draft_tokens:
            proposal = proposer.propose(request.context, num_draft_tokens)
        assert len(proposal.token_ids) <= num_draft_tokens
        drafted = self._now()
        tokens = [request.context[-1], *proposal.token_ids]
        token_ids = torch.tensor([tokens], device=self.model.device)
        logits = self.model.forward(token_ids, request.cache)[0]
        verified = self._now()
        verification = self._verify(request, proposal, logits)
        emitted = request.commit(verification.token_ids)
        request.cache.truncate(len(request.context) - 1)
        if proposer is not None:
            proposer.observe(request.context[-emitted:])
            self._note_memory(request, proposer, proposal)
        request.rounds.append(
            RoundRecord(
                proposed=len(proposal.token_ids),
                accepted=emitted - 1,
                emitted=emitted,
                draft_ms=(drafted - started) * 1e3,
                verify_ms=(verified - drafted) * 1e3,
                overhead_ms=(self._now() - verified) * 1e3,
            )
        )

    def _verify(
        self, request: _Request, proposal: DraftProposal, logits: torch.Tensor
    ) -> Verification:
        """Pick the rule the proposal calls for. logits [k + 1, vocab]."""
        drafts, position = proposal.token_ids, len(request.context)
        if request.sampling.is_greedy:
            return verify_greedy(drafts, logits.argmax(-1).tolist())
        target_probs = logits_to_probs(logits, request.sampling)
        if proposal.draft_probs is None:
            return verify_delta(drafts, target_probs, request.random, position)
        return verify_sampled(drafts, proposal.draft_probs, target_probs, request.random, position)

    def _note_memory(self, request: _Request, proposer: Proposer, proposal: DraftProposal) -> None:
        config, element_bytes = self.model.config, self.model.dtype.itemsize
        laws = 0 if request.sampling.is_greedy else 4 * (1 + (proposal.draft_probs is not None))
        row = config.vocab_size * (element_bytes + laws)
        slots = len(proposal.token_ids) * (config.kv_bytes_per_token(element_bytes) + row)
        request.extra_memory_bytes = max(request.extra_memory_bytes, slots + proposer.memory_bytes)

    def _now(self) -> float:
        synchronize(self.model.device)
        return perf_counter()
