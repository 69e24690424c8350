"""Sampled text of the trained drafters has the target's law: by enumeration and chi-square."""

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lessons.lib.config import SamplingParams
from lessons.lib.draft.dflash import DFlashProposer
from lessons.lib.draft.dspark import DSparkProposer
from lessons.lib.draft.dspark_budget import BudgetRule
from lessons.lib.draft.dspark_planner import VerifyPlanner
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from lessons.lib.pacing import Pacing
from lessons.lib.sampling import logits_to_probs
from lessons.lib.verify import verify_sampled
from tests.block_kit import block_net, informed
from tests.drafter_kit import KINDS as CHAINS
from tests.drafter_kit import draft_model, make_drafter, random_net
from tests.engine_models import fresh_logits, reference_model, write_folder
from tests.tree_oracle import chi_square_p_value, enumerate_outcomes, total_variation

VOCABULARY = 4
PROMPT = [0, 2, 1, 3, 1]
SAMPLING = SamplingParams(1.5, seed=3)
BLOCKS = {"dflash": DFlashProposer, "dspark": DSparkProposer}
KINDS = [*BLOCKS, *CHAINS]


@functools.cache
def four_words():
    with tempfile.TemporaryDirectory() as folder:
        reference = reference_model("llama", vocab_size=VOCABULARY)
        return load_model(write_folder(reference, Path(folder)), "float32", "cpu")


@functools.cache
def net_of(kind):
    model = four_words()[0]
    if kind in BLOCKS:
        return block_net(kind, model.config, mask_token_id=0)
    net = random_net(kind, model)
    return draft_model(net, model, 2048) if kind == "standalone" else net


def proposer_of(kind, sampling=SAMPLING):
    model = four_words()[0]
    if kind in BLOCKS:
        return BLOCKS[kind](net_of(kind), model, sampling)
    return make_drafter(kind, net_of(kind), sampling, model)


@functools.cache
def target_law(prefix=()):
    """Law [vocab] of the next token after the prompt and a prefix."""
    logits = fresh_logits(four_words()[0], torch.tensor([[*PROMPT, *prefix]]))[0, -1]
    return logits_to_probs(logits, SAMPLING).double()


def law_of_pairs(law):
    """law(prefix) -> joint law [vocab ** 2] of two tokens."""
    return torch.cat([law(())[a] * law((a,)) for a in range(VOCABULARY)])


def round_law(kind, change=lambda proposal: proposal, depth=2):
    """Exact joint law of the first two tokens of a round of `depth` drafts, over all its dice."""
    proposer = informed(proposer_of(kind), four_words()[0], PROMPT)

    class Dice:
        def __init__(self, dice):
            self.dice = dice

        def draw(self, probs, position):
            return self.dice.draft(probs, position)

    def run(dice):
        proposer._random = Dice(dice)
        proposal = change(proposer.propose(PROMPT, depth))
        prefixes = [tuple(proposal.token_ids[:n]) for n in range(len(proposal.token_ids) + 1)]
        target = torch.stack([target_law(prefix) for prefix in prefixes])
        tokens = proposal.token_ids, proposal.draft_probs.double(), target
        return tuple(verify_sampled(*tokens, dice, 0).token_ids[:2])

    joint = torch.zeros(VOCABULARY, VOCABULARY, dtype=torch.float64)
    for tokens, probability in enumerate_outcomes(run).items():
        joint[tokens[0]] += probability * (
            torch.eye(VOCABULARY)[tokens[1]] if len(tokens) > 1 else target_law(tokens)
        )
    return joint.flatten()


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_has_exactly_the_law_of_the_target(kind):
    assert total_variation(round_law(kind), law_of_pairs(target_law)) < 1e-6


@pytest.mark.parametrize("kind", ["dspark", *CHAINS])
def test_a_law_that_forgets_the_token_before_is_caught(kind):
    """Scoring both drafts by the first one's law: close to right, and wrong."""

    def forgetful(proposal):
        return replace(proposal, draft_probs=proposal.draft_probs[[0, 0]])

    assert total_variation(round_law(kind, forgetful), law_of_pairs(target_law)) > 1e-3


def tight_plans():
    """A full batch shares a budget that half of its drafts do not fit into."""
    rule = BudgetRule(lambda _batch, rows: 128 + rows**2 / 128)  # best at 128 rows
    return Pacing(verify_planner=VerifyPlanner(rule))


@pytest.mark.parametrize(
    "kind, make_pacing", [*((kind, Pacing) for kind in KINDS), ("dspark", tight_plans)]
)
def test_the_engine_draws_from_the_law_of_the_target(kind, make_pacing):
    pacing = make_pacing()
    engine = Engine(*four_words(), max_running=64, shares_prefixes=False, pacing=pacing)
    counts = torch.zeros(VOCABULARY, VOCABULARY, dtype=torch.float64)
    num_accepted = num_short = 0
    for seed in range(1, 301):
        sampling = SamplingParams(SAMPLING.temperature, seed=seed)
        settings = dict(proposer=proposer_of(kind, sampling), depth=2, ignore_eos=True)
        engine.add_request(PROMPT, 4, sampling, request_id=str(seed), **settings)
    while engine.has_work:
        for name in engine.step().finished:
            result = engine.take_result(name)
            counts[tuple(result.token_ids[1:3])] += 1
            num_accepted += sum(r.accepted for r in result.rounds)
            num_short += result.rounds[0].proposed < 2  # 4 tokens leave room for two
    first = target_law()
    later = torch.stack([law_of_pairs(lambda p, a=a: target_law((a, *p))) for a in range(4)])
    assert num_accepted > 50 and (num_short > 30) == (make_pacing is tight_plans)
    assert chi_square_p_value(counts.flatten(), first @ later) > 1e-3
