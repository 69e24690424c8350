"""Measure methods against target-only decoding of the same run.

Methods take turns on every prompt and the order rotates, so that a machine that slows down for a
while slows all of them. Nothing is compared across runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from tqdm import tqdm

from kernels.runtime import InputError
from lessons.lib import metrics
from lessons.lib.bench import pace
from lessons.lib.bench.decode import decode
from lessons.lib.bench.workload import Prompt
from lessons.lib.config import SamplingParams
from lessons.lib.draft.proposer import Proposer
from lessons.lib.draft.registry import TARGET_ONLY, check_method, make_proposer
from lessons.lib.engine import Engine
from lessons.lib.metrics import RoundRecord
from lessons.lib.pacing import Pacing

BASELINE = "baseline"
GB = 1e9
_WARM_UP_TOKENS = 8


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
    """One prompt, or a batch of prompts of one kind, decoded once by one method; the figures are
    described in decode.Decoded."""

    spec: MethodSpec
    kind: str
    prompt: str
    repeat: int
    rounds: list[RoundRecord]
    prefill_ms: float
    extra_memory_bytes: int
    num_passes: int = 0
    num_drafted: int = 0
    num_drafts: int = 0


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


def adaptive_pacing(spec: MethodSpec) -> Pacing:
    """A fresh controller. A planned method needs step times: see methods.pacing_of."""
    if spec.is_planned:
        raise InputError(f"{spec.name} plans by step times, and here none were measured")
    return pace.adaptive_depth()[0]


def run_interleaved(
    engine: Engine,
    prompts: Sequence[Prompt],
    specs: Sequence[MethodSpec],
    repeats: int = 1,
    max_new_tokens: int = 48,
    sampling: SamplingParams | None = None,
    progress: bool = True,
    weights: Mapping[str, Path] | None = None,
    batch: int = 1,
    pacing: Callable[[MethodSpec], Pacing] = adaptive_pacing,
) -> list[Run]:
    """Every prompt by every method, `repeats` times over, after one short untimed turn each.

    weights: by method, what it reads instead of its shipped ones. batch: prompts of a kind that are
    decoded at a time; those that fill no batch are left out. pacing: a fresh one for an adaptive or
    planned method; it goes on from prompt to prompt of a kind, as in an engine that serves such.
    """
    groups = _groups(prompts, batch)
    if not groups or repeats < 1:
        raise InputError(
            "nothing to measure: give at least one prompt and one repeat, and no fewer prompts of "
            f"a kind than the batch of {batch}"
        )
    for spec in specs:
        warm_up = _Turner(engine, sampling, weights or {}, pacing)
        warm_up.run(groups[0], spec, 0, _WARM_UP_TOKENS)
    turner = _Turner(engine, sampling, weights or {}, pacing)
    turns = list(_turns(groups, specs, repeats))
    return [
        turner.run(group, spec, repeat, max_new_tokens)
        for repeat, group, spec in tqdm(turns, disable=not progress, desc="measuring", unit="run")
    ]


def _groups(prompts: Sequence[Prompt], batch: int) -> list[list[Prompt]]:
    """Batches of one kind each, in the order of the prompts."""
    if batch < 1:
        raise InputError(f"batch must be 1 or more, got {batch}")
    groups = []
    for _, part in groupby(prompts, key=lambda prompt: prompt.kind):
        found = list(part)
        groups += [found[i : i + batch] for i in range(0, len(found) - batch + 1, batch)]
    return groups


def _turns(
    groups: Sequence[list[Prompt]], specs: Sequence[MethodSpec], repeats: int
) -> Iterator[tuple[int, list[Prompt], MethodSpec]]:
    for repeat in range(repeats):
        for index, group in enumerate(groups):
            first = (repeat + index) % len(specs)
            for spec in [*specs[first:], *specs[:first]]:
                yield repeat, group, spec


@dataclass(frozen=True)
class _Turner:
    """Runs any method under the same conditions."""

    engine: Engine
    sampling: SamplingParams | None
    weights: Mapping[str, Path]
    pacing: Callable[[MethodSpec], Pacing]
    paced: dict[tuple[MethodSpec, str], Pacing] = field(default_factory=dict)

    def proposer(self, spec: MethodSpec) -> Proposer | None:
        path, engine = self.weights.get(spec.method), self.engine
        return make_proposer(spec.method, engine.model, self.sampling, path, engine.tokenizer)

    def run(
        self, group: Sequence[Prompt], spec: MethodSpec, repeat: int, max_new_tokens: int
    ) -> Run:
        engine, pacing = self.engine, self.engine.pacing
        if spec.is_adaptive or spec.is_planned:
            mine = spec, group[0].kind
            if mine not in self.paced:
                self.paced[mine] = self.pacing(spec)
            engine.pacing = self.paced[mine]
        texts = [prompt.token_ids(engine.tokenizer) for prompt in group]
        proposers = [self.proposer(spec) for _ in group]
        try:
            found = decode(engine, texts, proposers, spec.depth, max_new_tokens, self.sampling)
        finally:
            engine.pacing = pacing
        prompt = "+".join(prompt.name for prompt in group)
        return Run(spec, group[0].kind, prompt, repeat, **vars(found))


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
