"""Measure methods against target-only decoding of the same run.

Methods take turns on every prompt and the order rotates, so that a machine that slows down for a
while slows all of them. Nothing is compared across runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
from tqdm import tqdm

from kernels.kv_pool import SequenceKV
from kernels.runtime import InputError, synchronize
from lessons.lib import metrics
from lessons.lib.bench.workload import Prompt
from lessons.lib.config import SamplingParams
from lessons.lib.draft.adaptive import AdaptiveDepth
from lessons.lib.draft.registry import TARGET_ONLY, check_method, make_proposer
from lessons.lib.engine import Engine
from lessons.lib.metrics import RoundRecord
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.llama import LlamaModel
from lessons.lib.pacing import Pacing
from lessons.lib.tree import DraftTree

BASELINE = "baseline"
GB = 1e9
_WARM_UP_TOKENS = 8
PAGE_SIZE = 16


@dataclass(frozen=True)
class MethodSpec:
    """A method at a depth; target-only has depth 0 and the name "baseline".

    is_adaptive: a controller chooses the depth from step to step, up to `depth`.
    is_planned: a planner chooses how many of `depth` drafts are verified (DSpark's, compact).
    """

    method: str
    depth: int
    is_adaptive: bool = False
    is_planned: bool = False

    @property
    def name(self) -> str:
        """ "baseline", "ngram-4", "ngram-auto", "dspark-5-compact", ..."""
        if self.method == TARGET_ONLY:
            return BASELINE
        depth = "auto" if self.is_adaptive else self.depth
        return f"{self.method}-{depth}" + ("-compact" if self.is_planned else "")


@dataclass(frozen=True)
class Run:
    """One prompt decoded once by one method."""

    spec: MethodSpec
    kind: str
    prompt: str
    repeat: int
    rounds: list[RoundRecord]
    prefill_ms: float
    extra_memory_bytes: int


@dataclass(frozen=True)
class MethodMeasurement:
    """One method over all prompts of a run. Times are milliseconds, phases are means per round.

    `conditional_acceptance` ends before the first position at which no round survived, so that
    1 + sum of its running products is the measured tokens per round. A round without a proposal
    counts as a rejection at the first position: the round had to be paid all the same.
    """

    name: str
    depth: int
    conditional_acceptance: list[float]
    draft_ms: float
    verify_ms: float
    overhead_ms: float
    extra_memory_gb: float
    acceptance_length: float
    ms_per_token: float
    speedup: float
    num_rounds: int

    def as_method(self) -> dict[str, object]:
        """The row that the cost model of Lesson 8 takes."""
        return {
            "name": self.name,
            "conditional_acceptance": self.conditional_acceptance,
            "draft_ms": self.draft_ms,
            "verify_ms": self.verify_ms,
            "overhead_ms": self.overhead_ms,
            "extra_memory_gb": self.extra_memory_gb,
        }


def method_specs(methods: Sequence[str], depths: Sequence[int]) -> list[MethodSpec]:
    """Target-only first, whether asked for or not, then every method at every depth."""
    if any(depth < 1 for depth in depths):
        raise InputError(f"depths must be 1 or more, got {', '.join(map(str, depths))}")
    for method in methods:
        check_method(method)  # an unknown name fails here, before anything is measured
    drafted = [method for method in methods if method != TARGET_ONLY]
    specs = [MethodSpec(method, depth) for method in drafted for depth in depths]
    return [MethodSpec(TARGET_ONLY, 0), *specs]


def run_interleaved(
    engine: Engine,
    prompts: Sequence[Prompt],
    specs: Sequence[MethodSpec],
    repeats: int = 1,
    max_new_tokens: int = 48,
    sampling: SamplingParams | None = None,
    progress: bool = True,
    weights: Mapping[str, Path] | None = None,
) -> list[Run]:
    """Every prompt by every method, `repeats` times over, after one short untimed turn each.

    weights: by method, what it reads instead of its shipped ones.
    """
    if not prompts or repeats < 1:
        raise InputError("nothing to measure: give at least one prompt and one repeat")
    for spec in specs:
        _run(engine, prompts[0], spec, 0, _WARM_UP_TOKENS, sampling, weights)
    turns = list(_turns(prompts, specs, repeats))
    return [
        _run(engine, prompt, spec, repeat, max_new_tokens, sampling, weights)
        for repeat, prompt, spec in tqdm(turns, disable=not progress, desc="measuring", unit="run")
    ]


def _turns(
    prompts: Sequence[Prompt], specs: Sequence[MethodSpec], repeats: int
) -> Iterator[tuple[int, Prompt, MethodSpec]]:
    for repeat in range(repeats):
        for index, prompt in enumerate(prompts):
            first = (repeat + index) % len(specs)
            for spec in [*specs[first:], *specs[:first]]:
                yield repeat, prompt, spec


def _run(
    engine: Engine,
    prompt: Prompt,
    spec: MethodSpec,
    repeat: int,
    max_new_tokens: int,
    sampling: SamplingParams | None,
    weights: Mapping[str, Path] | None,
) -> Run:
    path, pacing = (weights or {}).get(spec.method), engine.pacing
    if spec.is_adaptive:
        engine.pacing = Pacing(depth_policy=AdaptiveDepth())  # fresh: a text is paced by itself
    try:
        result = engine.generate(
            prompt.token_ids(engine.tokenizer),
            max_new_tokens,
            sampling,
            proposer=make_proposer(spec.method, engine.model, sampling, path, engine.tokenizer),
            depth=spec.depth,
        )
    finally:
        engine.pacing = pacing
    memory = result.extra_memory_bytes
    return Run(spec, prompt.kind, prompt.name, repeat, result.rounds, result.prefill_ms, memory)


def measure_methods(
    engine: Engine,
    prompts: Sequence[Prompt],
    depths: Sequence[int] = (2, 4, 8),
    repeats: int = 1,
    max_new_tokens: int = 48,
    seed: int = 0,
    progress: bool = True,
    methods: Sequence[str] = ("ngram",),
    temperature: float = 0.0,
) -> list[MethodMeasurement]:
    """Target-only first, then each method at each depth, in the order of `depths`. `seed` matters
    at a temperature above 0 only. Raises InputError when no prompt yields a round."""
    specs = method_specs(methods, depths)
    sampling = SamplingParams(temperature=temperature, seed=seed)
    runs = run_interleaved(engine, prompts, specs, repeats, max_new_tokens, sampling, progress)
    return [summarise(runs, spec) for spec in specs]


def summarise(runs: Sequence[Run], spec: MethodSpec) -> MethodMeasurement:
    """One method's runs as one row. Times are medians over repeats of the mean within a repeat;
    the speedup divides by target-only decoding of the same repeat."""
    rounds = [record for run in runs if run.spec == spec for record in run.rounds]
    if not rounds:
        raise InputError(f"{spec.name}: every answer ended with its first token; no round to time")
    repeats = sorted({run.repeat for run in runs})
    mine = [_rounds_of(runs, spec.name, repeat) for repeat in repeats]
    reference = [_rounds_of(runs, BASELINE, repeat) for repeat in repeats]
    phases = {
        phase: statistics.median(
            statistics.fmean(getattr(record, f"{phase}_ms") for record in part) for part in mine
        )
        for phase in metrics.PHASES
    }
    return MethodMeasurement(
        name=spec.name,
        depth=spec.depth,
        conditional_acceptance=observed_conditional(rounds),
        draft_ms=phases["draft"],
        verify_ms=phases["verify"],
        overhead_ms=phases["overhead"],
        extra_memory_gb=max(run.extra_memory_bytes for run in runs if run.spec == spec) / GB,
        acceptance_length=statistics.fmean(record.emitted for record in rounds),
        ms_per_token=statistics.median(ms_per_token(part) for part in mine),
        speedup=statistics.median(
            ms_per_token(theirs) / ms_per_token(part)
            for theirs, part in zip(reference, mine, strict=True)
        ),
        num_rounds=len(rounds),
    )


def _rounds_of(runs: Sequence[Run], name: str, repeat: int) -> list[RoundRecord]:
    chosen = (run for run in runs if run.spec.name == name and run.repeat == repeat)
    return [record for run in chosen for record in run.rounds]


def ms_per_token(rounds: Sequence[RoundRecord]) -> float:
    """Time of the rounds over the tokens they emitted."""
    return sum(r.total_ms for r in rounds) / sum(r.emitted for r in rounds)


def observed_conditional(rounds: Sequence[RoundRecord]) -> list[float]:
    """Conditional acceptance up to the first position that no round reached."""
    observed: list[float] = []
    for value in metrics.acceptance(rounds).conditional:
        if value is None:
            break
        observed.append(value)
    return observed


def step_cost(
    model: LlamaModel,
    batch_sizes: Sequence[int],
    num_tokens: Sequence[int],
    context: int = 256,
    repeats: int = 5,
) -> dict[tuple[int, int], float]:
    """Median ms of one forward of [batch, n] tokens behind `context` cached ones: {(batch, n): ms}.
    The cached keys are zeros: the time does not depend on their values."""
    return {
        (batch, count): statistics.median(times)
        for batch in batch_sizes
        for count, times in step_times(model, batch, num_tokens, context, repeats).items()
    }


@torch.inference_mode()
def step_times(
    model: LlamaModel,
    batch: int,
    num_tokens: Sequence[int],
    context: int,
    repeats: int,
    num_scored: int | None = None,
) -> dict[int, list[float]]:
    """ms of each of `repeats` turns, {n: [ms, ...]}; all n take turns, after one untimed turn.
    num_scored: rows of each request that get logits, None for all."""
    scored = None if num_scored is None else [num_scored] * batch
    pool = model.new_pool(batch * (context + max(num_tokens) + PAGE_SIZE), PAGE_SIZE)
    sequences = [SequenceKV() for _ in range(batch)]
    for kv in sequences:
        pool.reserve_tree(kv, context)
        pool.commit(kv, context)
    times: dict[int, list[float]] = {count: [] for count in num_tokens}
    for repeat in range(repeats + 1):
        for count in num_tokens:
            chain = DraftTree.chain([0] * count)
            rows = prepare_batch(pool, [(kv, chain) for kv in sequences], scored)
            synchronize(model.device)
            started = perf_counter()
            model.forward(rows, pool)
            synchronize(model.device)
            elapsed = (perf_counter() - started) * 1e3
            for kv in sequences:
                pool.commit(kv, 0)
            if repeat:
                times[count].append(elapsed)
    return times
