"""Sampled trees in the engine: siblings drawn without replacement leave the law unchanged."""

import torch

from lessons.lib.config import SamplingParams
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.sampling import logits_to_probs
from tests.batch_kit import VOCABULARY, RandomTrees, random_ids, tiny_engine
from tests.engine_models import fresh_logits

PROMPT, LAW = random_ids(8, 5), dict(temperature=5.0, top_k=6)
COUNT = 400


class TwoSiblings(RandomTrees):
    """Two guesses drawn from a law that is not the target's, the second without the first."""

    law = torch.zeros(VOCABULARY)

    def propose(self, context_ids, num_draft_tokens):
        generator = torch.Generator().manual_seed(self.seed)
        drawn = torch.multinomial(self.law, num_draft_tokens, generator=generator).tolist()
        rows = self.law.repeat(1 + len(drawn), 1)
        return DraftProposal(drawn, rows, [-1] * len(drawn))


def target_laws():
    """Law of the first token and of the second, the first one's averaged out."""
    model = tiny_engine().model
    first = logits_to_probs(
        fresh_logits(model, torch.tensor([PROMPT]))[0, -1], SamplingParams(**LAW)
    )
    tokens = first.nonzero().flatten()
    texts = torch.tensor([[*PROMPT, int(token)] for token in tokens])
    second = logits_to_probs(fresh_logits(model, texts)[:, -1], SamplingParams(**LAW))
    return first, (first[tokens, None] * second).sum(0)


def test_sampled_trees_leave_the_law_of_the_text_unchanged():
    _, law = target_laws()
    noise = torch.rand(VOCABULARY, generator=torch.Generator().manual_seed(1))
    TwoSiblings.law = (law + 0.02 * noise) ** 0.5
    TwoSiblings.law /= TwoSiblings.law.sum()
    engine = tiny_engine(max_running=64, token_budget=2048)
    names = [
        engine.add_request(
            PROMPT, 4, SamplingParams(seed=seed, **LAW), TwoSiblings([], seed), 2, ignore_eos=True
        )
        for seed in range(COUNT)
    ]
    while engine.has_work:
        engine.step()
    results = [engine.take_result(name) for name in names]
    found = torch.zeros(VOCABULARY)
    for result in results:
        found[result.token_ids[1]] += 1 / COUNT
    accepted = sum(result.rounds[0].accepted for result in results)
    # A true sample of 36 or so likely tokens is at most sqrt(36 / (2 pi n)) = 0.12 away on average.
    assert float((found - law).abs().sum()) / 2 < 0.16
    assert float((law.roll(1) - law).abs().sum()) / 2 > 0.3
    assert 0.02 * COUNT < accepted < 0.95 * COUNT  # both branches of the rule are taken
