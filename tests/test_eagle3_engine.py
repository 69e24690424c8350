"""EAGLE-3 in the engine: it changes how fast tokens come, never which ones or their law."""

import itertools

import pytest
import torch

from lessons.lib import metrics
from lessons.lib.config import SamplingParams
from lessons.lib.engine import Engine
from tests.batch_kit import Case as BatchCase
from tests.batch_kit import random_ids, run_all, tiny_model
from tests.eagle3_kit import llama_engine, proposer_of, trained_net
from tests.engine_models import reference_model
from tests.train_kit import tiny_samples

SHAPES = {"chain": {}, "tree": {"width": 3, "num_levels": 4}}


class EagleCase(BatchCase):
    """The method names the shape of the drafts."""

    def proposer(self):
        settings = SHAPES[self.method]
        self.drafter = proposer_of(trained_net()[0], sampling=self.sampling, **settings)
        return self.drafter


def make_eagle_cases(count, num_new=24):
    """Prompts the drafter was trained on and others, of both shapes."""
    cases = []
    for number in range(count):
        prompt = tiny_samples()[number].token_ids[:6] if number % 2 else random_ids(30, number)
        sampling = SamplingParams()
        shape = list(SHAPES)[number // 2 % 2]
        case = EagleCase(prompt, num_new, sampling, shape, 4 + number % 5, number)
        case.expected = alone(prompt, num_new, sampling)
        cases.append(case)
    return cases


def alone(prompt, num_new, sampling):
    """Target-only decoding."""
    return llama_engine().generate(prompt, num_new, sampling, ignore_eos=True).token_ids


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_running": 1},
        {"token_budget": 11},
        {"num_kv_tokens": 112, "page_size": 8, "token_budget": 24},
    ],
    ids=["batch", "one by one", "chunked", "preempted"],
)
def test_greedy_tokens_are_the_targets(settings):
    cases = make_eagle_cases(8)
    outcome, records = run_all(llama_engine(**settings), cases, every=2)
    assert any(record.preempted for record in records) == ("num_kv_tokens" in settings)
    for case, result in outcome.values():
        assert result.token_ids == case.expected, case.method
    assert sum(r.accepted for _, result in outcome.values() for r in result.rounds) > 10


def test_neighbours_chunks_and_preemption_do_not_change_what_is_drafted():
    """The draft KV is rebuilt from the same features, so every round accepts as much."""
    accepted = []
    for settings in ({"max_running": 1}, {"token_budget": 11}, {"num_kv_tokens": 112}):
        outcome, _ = run_all(llama_engine(**settings, page_size=8), make_eagle_cases(8))
        rounds = {
            name: [r.accepted for r in result.rounds] for name, (_, result) in outcome.items()
        }
        accepted.append(rounds)
    assert accepted[0] == accepted[1] == accepted[2]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_trained_drafter_saves_rounds(shape):
    case = EagleCase(tiny_samples()[3].token_ids[:6], 24, SamplingParams(), shape, 5, 0)
    engine = llama_engine()
    case.add_to(engine, request_id="a")
    while engine.has_work:
        engine.step()
    result = engine.take_result("a")
    assert metrics.acceptance_length(result.rounds) > 1.25
    passes = [r.depth for r in result.rounds if r.proposed]
    if shape == "chain":
        assert case.drafter.num_passes == sum(passes)
    assert result.extra_memory_bytes > case.drafter.memory_bytes > 0


def test_forgotten_state_is_released():
    drafter = proposer_of(trained_net()[0])
    weights = drafter.memory_bytes
    llama_engine().generate(random_ids(40, 1), 5, proposer=drafter, depth=3, ignore_eos=True)
    assert drafter.memory_bytes == weights


SAMPLING = {"temperature": 0.9, "top_k": 3}
LENGTH, NUM_TEXTS = 4, 480


def exact_law(prompt):
    """Probability of every continuation of LENGTH tokens, from transformers' logits."""
    law = {(): 1.0}
    for _ in range(LENGTH):
        texts = [[*prompt, *path] for path in law]
        with torch.no_grad():
            logits = reference_model("llama")(torch.tensor(texts)).logits[:, -1]
        best = (logits / SAMPLING["temperature"]).topk(SAMPLING["top_k"])
        rows = zip(
            law.items(), best.indices.tolist(), best.values.softmax(-1).tolist(), strict=True
        )
        law = {
            (*path, token): mass * share
            for (path, mass), tokens, shares in rows
            for token, share in zip(tokens, shares, strict=True)
        }
    return law


def sampled_texts(prompt, shape):
    """Results of NUM_TEXTS requests, 32 at a time."""
    engine = Engine(*tiny_model("llama"), max_running=32, shares_prefixes=False)
    cases = [
        EagleCase(prompt, LENGTH, SamplingParams(**SAMPLING, seed=seed), shape, 3, seed)
        for seed in range(NUM_TEXTS)
    ]
    names = [case.add_to(engine) for case in cases]
    while engine.has_work:
        engine.step()
    return [engine.take_result(name) for name in names]


@pytest.mark.parametrize("shape", SHAPES)
def test_sampled_texts_have_the_targets_law(shape):
    """Chi-square over whole texts. A drawn chain is judged by its own laws, a tree as a delta."""
    prompt = tiny_samples()[3].token_ids[:6]
    results = sampled_texts(prompt, shape)
    rounds = list(itertools.chain.from_iterable(result.rounds for result in results))
    share = sum(r.accepted for r in rounds) / sum(r.depth for r in rounds)
    assert 0.05 < share < 0.95  # both acceptance and the residual are at work
    law = exact_law(prompt)
    counts = dict.fromkeys(law, 0)
    for result in results:
        counts[tuple(result.token_ids)] += 1
    expected = {path: mass * NUM_TEXTS for path, mass in law.items()}
    cells = [path for path in law if expected[path] >= 5]
    rare = [path for path in law if expected[path] < 5]
    pairs = [(counts[path], expected[path]) for path in cells]
    pairs.append((sum(counts[p] for p in rare), sum(expected[p] for p in rare)))
    chi_square = sum((found - wanted) ** 2 / wanted for found, wanted in pairs if wanted)
    freedom = len(pairs) - 1
    assert freedom > 10
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5, (chi_square, freedom)
