"""A small language model drafts for a large one (arXiv 2211.17192, 2302.01318).

It shares tokens with the target and nothing else, so it pays for its own prompt and its own KV,
which is paged as the target's is. A round costs gamma passes for gamma drafts: the first one reads
what the last round added, and the last draft is never read unless it is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import torch

from kernels.block_allocator import OutOfPages
from kernels.kv_pool import RollbackPolicy, SequenceKV
from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.chain import draft_chain
from lessons.lib.draft.lockstep import Ask, Drafting, SharedProposer, Steps
from lessons.lib.draft.net_file import load_weights, read_config, save_net
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.draft.standalone_net import StandaloneConfig, StandaloneNet
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.graphed import GraphedForward
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.loader import load_model
from lessons.lib.model.tokenizer import Tokenizer
from lessons.lib.sampling import SeededRandom
from lessons.lib.tree import DraftTree

DEFAULT_KV_TOKENS = 32_768
MAX_TOGETHER = 16  # requests of a pass for which graphs are kept; more run eagerly
Appended = tuple[SequenceKV, Sequence[int]]  # a sequence and the tokens to read behind it


class DraftModel:
    """The small model and the KV pool of all requests that it drafts for."""

    def __init__(
        self, model: LlamaModel, weight_bytes: int, num_kv_tokens: int = DEFAULT_KV_TOKENS
    ) -> None:
        """weight_bytes: of weights that are not the target's own."""
        self.model, self.weight_bytes = model, weight_bytes
        # Rejected guesses are forgotten by a counter: their pages serve the next round.
        self.pool = model.new_pool(num_kv_tokens, policy=RollbackPolicy.COUNTER)
        has_graphs = model.device.type == "cuda"
        self._graphs = GraphedForward(model, self.pool, MAX_TOGETHER) if has_graphs else None

    def append(self, items: Sequence[Appended]) -> list[torch.Tensor | OutOfPages]:
        """One pass over tokens behind several sequences -> of each the logits [vocab] behind its
        last token, or why not: where the pool has no pages for it, it stays as it was."""
        try:
            return list(self._pass(items))
        except OutOfPages as full:
            for sequence, _ in items:
                self.pool.commit(sequence, 0)  # the first ones may have got theirs
            if len(items) == 1:
                return [full]
            return [logits for item in items for logits in self.append([item])]

    def _pass(self, items: Sequence[Appended]) -> torch.Tensor:
        rows = [(sequence, DraftTree.chain(token_ids)) for sequence, token_ids in items]
        batch = prepare_batch(self.pool, rows, [1] * len(rows))
        if self._graphs is not None:
            logits = self._graphs(batch)[0].clone()  # the next pass writes into them again
        else:
            logits = self.model.forward(batch, self.pool)
        for sequence, token_ids in items:
            self.pool.commit(sequence, len(token_ids))
        return logits


class StandaloneProposer(SharedProposer):
    """Owns the pages of one request in the pool of the draft model."""

    def __init__(self, draft: DraftModel, sampling: SamplingParams | None = None) -> None:
        """sampling: the request's; greedy picks drafts, anything else draws them by their laws."""
        self.num_passes = 0  # of the draft model, since the request began
        self._draft = draft
        self._sampling = sampling or SamplingParams()
        self._random = SeededRandom(self._sampling.seed, is_draft=True)
        self._kv = SequenceKV()
        self._known: list[int] = []  # the tokens whose KV it holds

    @property
    def memory_bytes(self) -> int:
        """Weights that are not the target's, and pages."""
        pool = self._draft.pool
        page_bytes = pool.page_size * pool.bytes_per_token
        return self._draft.weight_bytes + len(self._kv.block_table) * page_bytes

    def drafting(self, context_ids: Sequence[int], num_draft_tokens: int) -> Drafting:
        """A chain. Nothing where the pool is full or the small model's context ends: neither
        depends on what was drawn, so the law of the text stays the target's."""
        room = self._draft.model.config.max_context + 1 - len(context_ids)
        count = min(num_draft_tokens, room)
        if count < 1:
            return DraftProposal([])
        self._keep(_num_shared(self._known, context_ids[:-1]))
        settings = count, self._sampling, self._random, len(context_ids)
        try:
            logits = yield from self._append(context_ids[len(self._known) :])
            steps = draft_chain(logits, lambda token: self._append([token]), *settings)
            return (yield from steps)
        except OutOfPages:
            return DraftProposal([])

    def observe(self, token_ids: Sequence[int]) -> None:
        """Nothing to do: the next context tells which guesses stayed."""

    def forget(self) -> None:
        """Give the pages back."""
        self._draft.pool.release(self._kv)
        self._known = []

    def _keep(self, count: int) -> None:
        self._draft.pool.truncate(self._kv, count)
        del self._known[count:]

    def _append(self, token_ids: Sequence[int]) -> Steps[torch.Tensor]:
        logits = yield Ask(self._draft.append, (self._kv, token_ids))
        if isinstance(logits, OutOfPages):
            raise logits
        self.num_passes += 1
        self._known += token_ids
        return logits


def _num_shared(left: Sequence[int], right: Sequence[int]) -> int:
    """Tokens in which both begin alike."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))


def save_standalone(net: StandaloneNet, path: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Weights and config in one safetensors file, without embedding and head."""
    save_net(net, net.config, path, dtype)


def load_standalone(
    path: Path, target: LlamaModel, tokenizer: Tokenizer | None = None
) -> DraftModel:
    """A file of `save_standalone`, or any model that `load_model` reads, in the target's dtype.

    tokenizer: the target's, needed for a model that comes with its own; both must agree on every
    token. Raises InputError for anything that does not fit.
    """
    if path.suffix == ".gguf" or (path / "config.json").exists():
        return _load_independent(path, target, tokenizer)
    net = StandaloneNet(StandaloneConfig(**read_config(path)), target)
    load_weights(net, path)
    count = sum(parameter.numel() for parameter in net.parameters())
    return DraftModel(net.to_model(target), count * target.dtype.itemsize)


def _load_independent(path: Path, target: LlamaModel, tokenizer: Tokenizer | None) -> DraftModel:
    dtype = str(target.dtype).removeprefix("torch.")
    model, own = load_model(path, dtype, str(target.device))
    mine, wanted = model.config.vocab_size, target.config.vocab_size
    if mine != wanted:
        raise InputError(f"{path}: a vocabulary of {mine} tokens, the target's has {wanted}")
    if tokenizer is None:
        raise InputError(f"{path}: give the target's tokenizer, to compare the vocabularies")
    if (token := _first_difference(own.vocabulary, tokenizer.vocabulary)) is not None:
        raise InputError(f"{path}: token {token!r} has another id in the target's vocabulary")
    return DraftModel(model, _weight_bytes(model))


def _first_difference(mine: dict[str, int], wanted: dict[str, int]) -> str | None:
    return next((t for t in mine | wanted if mine.get(t) != wanted.get(t)), None)


def _weight_bytes(model: LlamaModel) -> int:
    tensors = {model.embedding, model.lm_head, model.final_norm}
    tensors |= {getattr(layer, field.name) for layer in model.layers for field in fields(layer)}
    return sum(t.numel() * t.dtype.itemsize for t in tensors if t is not None)
