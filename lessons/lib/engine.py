"""The loop: schedule, propose, verify, accept, commit or roll back, for a whole batch a step.

Who owns what: the proposers their draft state, the KV pool the pages, the scheduler the queues, the
verification rules nothing. The engine owns the requests and the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from kernels.graphs import GraphKey
from kernels.kv_pool import RollbackPolicy, SequenceKV
from kernels.kv_rollback import RollbackBatch, rollback_trees_kv
from kernels.runtime import InputError
from lessons.lib.accept_batch import accept
from lessons.lib.config import SamplingParams
from lessons.lib.draft.proposer import Proposer, TargetKVReader
from lessons.lib.draft.target_kv import TargetKV
from lessons.lib.metrics import StepClock, StepRecord
from lessons.lib.model.batch import ForwardBatch, prepare_batch
from lessons.lib.model.features import FeatureCapture
from lessons.lib.model.graphed import GraphedForward
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.tokenizer import Tokenizer
from lessons.lib.pacing import Pacing
from lessons.lib.scheduler import Scheduler
from lessons.lib.sequence import GenerationResult, Request, check_request
from lessons.lib.tree import DraftTree
from lessons.lib.tree_verify import TreeVerification
from lessons.lib.turn import Turn, record_step
from lessons.lib.verify_round import VerifyRound, verify_round

DEFAULT_KV_TOKENS = 8192
MAX_DEFAULT_KV_TOKENS = 32_768  # a pool for the full context of a long-context model is too much


class Engine:
    """Runs many requests at a time on a loaded target model, one forward a step."""

    def __init__(
        self,
        model: LlamaModel,
        tokenizer: Tokenizer,
        num_kv_tokens: int | None = None,
        page_size: int = 16,
        policy: RollbackPolicy = RollbackPolicy.RETURN_PAGES,
        max_running: int = 16,
        token_budget: int = 512,
        shares_prefixes: bool = True,
        pacing: Pacing | None = None,
        verify: VerifyRound = verify_round,
        rollback: RollbackBatch = rollback_trees_kv,
    ) -> None:
        """num_kv_tokens: room of the KV pool, default the model's context but 8192 to 32768.
        At most max_running requests decode at a time; a forward has at most token_budget rows, so
        longer prompts are prefilled in chunks. shares_prefixes: requests whose texts begin alike
        compute that part once. pacing: decides per batch how much is drafted and verified; it may
        be replaced while no request is under way.
        verify: the rule of a round; another one must be lossless for the engine to be.
        rollback: keeps the accepted paths; another one must leave the pool as this one does.
        """
        if max_running < 1 or token_budget < 1:
            raise InputError(
                f"max_running and token_budget must be 1 or more, got {max_running} and "
                f"{token_budget}"
            )
        context = min(model.config.max_context, MAX_DEFAULT_KV_TOKENS)
        num_tokens = num_kv_tokens or max(DEFAULT_KV_TOKENS, context)
        self.model = model
        self.tokenizer = tokenizer
        has_graphs = model.device.type == "cuda"
        # The graphs keep a page for themselves, beside what was asked for.
        self.pool = model.new_pool(num_tokens + has_graphs * page_size, page_size, policy)
        self._num_kv_tokens = num_tokens
        self._scheduler = Scheduler(self.pool, max_running, token_budget, shares_prefixes)
        self._token_budget = token_budget
        self._shares_prefixes = shares_prefixes
        self.pacing = pacing or Pacing()
        self._verify = verify
        self._rollback = rollback
        self.settings: dict[str, int | bool] = {  # equal in engines that are compared
            "max_running": max_running,
            "token_budget": token_budget,
            "num_kv_tokens": num_tokens,
            "page_size": page_size,
            "shares_prefixes": shares_prefixes,
            "graphs": has_graphs,
        }
        self._requests: dict[str, Request] = {}
        self._num_added = 0
        self._graphs = GraphedForward(model, self.pool, max_running) if has_graphs else None

    def add_request(
        self,
        prompt_ids: Sequence[int],
        max_new_tokens: int,
        sampling: SamplingParams | None = None,
        proposer: Proposer | None = None,
        depth: int = 0,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
        request_id: str | None = None,
    ) -> str:
        """Queue a request; returns its id. Arguments as for `generate`.

        A proposer serves one request at a time. Raises InputError for what can never be run.
        """
        self._num_added += 1
        name = request_id or f"request-{self._num_added}"
        if name in self._requests:
            raise InputError(f"request id {name!r} is in use; choose another one")
        room = self._num_kv_tokens, self.model.config.max_context
        check_request(prompt_ids, max_new_tokens, depth, stop, self._token_budget, *room)
        request = Request(
            request_id=name,
            token_ids=list(prompt_ids),
            max_len=len(prompt_ids) + max_new_tokens,
            sampling=sampling or SamplingParams(),
            proposer=proposer,
            depth=depth,
            stop_ids=frozenset() if ignore_eos else self.tokenizer.eos_token_ids,
            stop=tuple(stop),
            decode=self.tokenizer.decode,
        )
        if isinstance(proposer, TargetKVReader):
            proposer.read_target_kv(TargetKV(self.pool, request.kv))
        self._requests[name] = request
        self._scheduler.waiting.append(request)
        return name

    @property
    def has_work(self) -> bool:
        """Whether any request waits or runs."""
        return bool(self._scheduler.waiting or self._scheduler.running)

    @property
    def running(self) -> Sequence[Request]:
        """The requests that hold pages, for reading."""
        return tuple(self._scheduler.running)

    @property
    def graph_bytes(self) -> int | None:
        """What recorded graphs hold on the device; None where steps run eagerly."""
        return self._graphs.counters.captured_bytes if self._graphs else None

    @property
    def sequences(self) -> list[SequenceKV]:
        """The KV of all requests that hold any: what `check_integrity` compares the pool with."""
        scratch = [self._graphs.scratch] if self._graphs else []
        return scratch + [request.kv for request in self._scheduler.running]

    def generate(
        self,
        prompt_ids: Sequence[int],
        max_new_tokens: int,
        sampling: SamplingParams | None = None,
        proposer: Proposer | None = None,
        depth: int = 0,
        ignore_eos: bool = False,
        stop: Sequence[str] = (),
    ) -> GenerationResult:
        """Continue a prompt by at most max_new_tokens (at least one), until an end-of-text token
        or a stop string. Other requests of the engine go on meanwhile.

        proposer None or depth 0 is target-only decoding. `depth` is the most draft tokens a round
        may verify; a round verifies what was proposed and decodes one token when nothing was.
        Output law and, in float32, greedy tokens do not depend on proposer or depth.
        """
        name = self.add_request(
            prompt_ids, max_new_tokens, sampling, proposer, depth, stop, ignore_eos
        )
        try:
            while not self._requests[name].finish_reason:
                self.step()
        except BaseException:
            self.abort(name)
            raise
        return self.take_result(name)

    def stream(
        self, prompt_ids: Sequence[int], max_new_tokens: int, **settings: Any
    ) -> Iterator[str]:
        """As `generate`, but yields the text in pieces as it becomes certain. What may be the
        beginning of a stop string is held back. Leaving the loop early aborts the request."""
        name = self.add_request(prompt_ids, max_new_tokens, **settings)
        request, num_sent = self._requests[name], 0
        try:
            while not request.finish_reason:
                self.step()
                text = request.text()
                if len(text) > num_sent:
                    yield text[num_sent:]
                    num_sent = len(text)
        finally:
            self.abort(name)

    def abort(self, request_id: str) -> GenerationResult:
        """Stop a request wherever it is and free what it holds; returns what there was of it."""
        request = self.find(request_id)
        if request.finish_reason is None:
            request.finish_reason = "abort"
            self._end(request)
        return self.take_result(request_id)

    def take_result(self, request_id: str) -> GenerationResult:
        """The result of a finished request, which the engine then forgets."""
        request = self.find(request_id)
        if request.finish_reason is None:
            raise InputError(f"request {request_id!r} is not finished; step on or abort it")
        del self._requests[request_id]
        return request.result()

    @torch.inference_mode()
    def step(self) -> StepRecord:
        """One forward for every request that has a turn, and what came of it."""
        if not self.has_work:
            raise InputError("no request to work on; add one first")
        clock = StepClock(self.model.device)
        work = self._scheduler.schedule()
        for request, _ in work:
            request.started_at = request.started_at or clock.started
        clock.lap("rest")
        turns = self.pacing.take(work)
        clock.lap("draft")
        rows = [(turn.request.kv, turn.tree) for turn in turns]
        batch = prepare_batch(self.pool, rows, [turn.num_logits for turn in turns])
        num_pages = self.pool.allocator.num_owned
        clock.lap("rest")
        readers = [p for turn in turns if (p := turn.request.feature_proposer) is not None]
        capture = FeatureCapture(layer for p in readers for layer in p.feature_layers)
        logits, bucket = self._forward(batch, capture if readers else None)
        clock.lap("verify")
        verified = accept(turns, logits, self._verify)
        clock.lap("accept")
        emitted = self._commit(turns, verified, capture)
        clock.lap("commit")
        self.pacing.observe(turns, emitted, sum(clock.ms.values()))
        page_bytes = self.pool.page_size * self.pool.bytes_per_token
        preempted = tuple(self._scheduler.preempted)
        return record_step(turns, emitted, clock, preempted, num_pages, page_bytes, bucket)

    def _forward(
        self, batch: ForwardBatch, capture: FeatureCapture | None
    ) -> tuple[torch.Tensor, GraphKey | None]:
        """Logits, and the graph that gave them; a graph leaves no hidden states behind."""
        if self._graphs is not None and capture is None:
            return self._graphs(batch)
        return self.model.forward(batch, self.pool, capture), None

    def _commit(
        self,
        turns: Sequence[Turn],
        verified: Sequence[TreeVerification | None],
        capture: FeatureCapture,
    ) -> list[int]:
        """Append what was accepted, keep its KV and no other; how many tokens each turn emitted."""
        emitted: list[int] = []
        kept: list[tuple[SequenceKV, DraftTree, Sequence[int]]] = []
        for turn, outcome in zip(turns, verified, strict=True):
            count = turn.request.commit(outcome.token_ids) if outcome else 0
            emitted.append(count)
            kept.append((turn.request.kv, turn.tree, turn.path(outcome, count)))
        self._rollback(self.pool, kept)
        first_row = 0
        for turn, (_, tree, path) in zip(turns, kept, strict=True):
            turn.feed(capture, first_row, path)
            first_row += tree.num_nodes
        for turn, count in zip(turns, emitted, strict=True):
            self._after_commit(turn, count)
        return emitted

    def _after_commit(self, turn: Turn, emitted: int) -> None:
        request, proposer = turn.request, turn.request.proposer
        if self._shares_prefixes:
            self.pool.publish(request.kv, request.token_ids)
        if proposer is not None and turn.proposal is not None:
            proposer.observe(request.token_ids[-emitted:])
            turn.note_memory(self.model.config, self.model.dtype.itemsize)
        if request.finish_reason:
            self._end(request)

    def _end(self, request: Request) -> None:
        self._scheduler.remove(request)
        if request.proposer is not None:
            request.proposer.forget()

    def find(self, request_id: str) -> Request:
        """A request the engine knows, for reading: tokens and text so far. InputError otherwise."""
        if request_id not in self._requests:
            raise InputError(f"unknown request id {request_id!r}")
        return self._requests[request_id]
