"""Requests, proposers and a loop for the tests of the batched engine."""

import functools
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import torch

from kernels.kv_integrity import check_integrity
from lessons.lib.config import SamplingParams
from lessons.lib.draft.ngram import NgramProposer
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from tests.engine_models import reference_model, write_folder

VOCABULARY = 97


@functools.cache
def tiny_model(kind="qwen3"):
    """(model, tokenizer) of three layers in float32; token <n> has the text "<n>"."""
    with tempfile.TemporaryDirectory() as folder:
        return load_model(write_folder(reference_model(kind), Path(folder)), "float32", "cpu")


def tiny_engine(**settings):
    return Engine(*tiny_model(), **settings)


class RandomTrees:
    """Trees of random shape in which the true continuation hides among wrong guesses."""

    memory_bytes = 0

    def __init__(self, text, seed):
        self.text, self.seed = text, seed
        self.observed, self.is_forgotten = [], False

    def propose(self, context_ids, num_draft_tokens):
        rng = random.Random(f"{self.seed} {len(context_ids)}")  # the same when asked again
        tokens, parents, depths, is_true = [], [], [], []
        for node in range(rng.randint(0, num_draft_tokens)):
            parent = rng.randrange(-1, node)
            depth = depths[parent] + 1 if parent >= 0 else 0
            place = len(context_ids) + depth
            siblings = {t for t, p in zip(tokens, parents, strict=True) if p == parent}
            truth = self.text[place] if place < len(self.text) else None
            on_path = parent < 0 or is_true[parent]
            is_hit = on_path and truth is not None and truth not in siblings and rng.random() < 0.7
            others = sorted(set(range(VOCABULARY)) - siblings - {truth})
            tokens.append(truth if is_hit else rng.choice(others))
            parents.append(parent)
            depths.append(depth)
            is_true.append(is_hit)
        return DraftProposal(tokens, parent_ids=parents)

    def observe(self, token_ids):
        self.observed += token_ids

    def forget(self):
        self.is_forgotten = True


@dataclass
class Case:
    """One request and what target-only decoding alone gives for it."""

    prompt: list
    max_new_tokens: int
    sampling: SamplingParams
    method: str
    depth: int
    seed: int
    expected: list = field(default_factory=list)

    def proposer(self):
        if self.method == "none":
            return None
        if self.method == "trees":
            return RandomTrees([*self.prompt, *self.expected], self.seed)
        branches = {"ngram": 1, "ngram-tree": 3}[self.method]
        return NgramProposer(min_ngram=1, num_branches=branches)

    def add_to(self, engine, **settings):
        return engine.add_request(
            self.prompt,
            self.max_new_tokens,
            self.sampling,
            self.proposer(),
            self.depth,
            ignore_eos=True,
            **settings,
        )


def make_cases(count, seed, methods=("none", "ngram", "ngram-tree", "trees"), longest=60):
    """Random requests of mixed methods, depths, laws and lengths; some prompts begin alike."""
    rng = random.Random(seed)
    shared = rng.choices(range(VOCABULARY), k=longest // 2)
    cases = []
    for number in range(count):
        own = rng.choices(range(VOCABULARY), k=rng.randint(1, longest // 2))
        prompt = shared[: rng.choice([0, len(shared)])] + own
        sampling = SamplingParams(rng.choice([0.0, 1.5]), rng.choice([0, 5]), seed=number)
        method = methods[number % len(methods)]
        num_new = rng.randint(1, 4) if number % 5 == 4 else rng.randint(15, 30)
        case = Case(prompt, num_new, sampling, method, rng.randint(2, 8), number)
        alone = Engine(*tiny_model(), shares_prefixes=False)
        case.expected = alone.generate(
            prompt, case.max_new_tokens, sampling, ignore_eos=True
        ).token_ids
        cases.append(case)
    return cases


def run_all(engine, cases, every=1, check=True):
    """Requests join `every` so many steps -> (results by id, records); books checked each step."""
    waiting, names, results, records = list(cases), {}, {}, []
    while waiting or engine.has_work:
        if waiting and (len(records) % every == 0 or not engine.has_work):
            case = waiting.pop(0)
            names[case.add_to(engine)] = case
        records.append(engine.step())
        if check:
            check_integrity(engine.pool, engine.sequences)
        for name in records[-1].finished:
            results[name] = engine.take_result(name)
    assert engine.sequences == [] and engine.pool.allocator.num_owned == 0
    return {name: (names[name], results[name]) for name in names}, records


def assert_expected(outcome):
    for name, (case, result) in outcome.items():
        assert result.token_ids == case.expected, (name, case.method, case.sampling)


def relative_error(found, expected):
    """Largest difference on the scale of the reference; 1 for zeros."""
    return float((found - expected).abs().max() / expected.abs().max())


def random_ids(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCABULARY, (count,), generator=generator).tolist()
