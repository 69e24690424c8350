"""A softmax over some of the vocabulary: exact where all are in, right on average where not."""

import pytest
import torch
import torch.nn.functional as F

from lessons.lib.train.candidates import draw_candidates, soft_cross_entropy

VOCAB = 50


def draw(wanted, num_drawn, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return draw_candidates(torch.tensor(wanted), VOCAB, num_drawn, generator)


def test_with_all_others_drawn_it_is_the_softmax():
    logits = torch.randn(3, VOCAB, generator=torch.Generator().manual_seed(1))
    candidates = draw([[7, 3], [7, -1]], VOCAB)
    assert sorted(candidates.ids.tolist()) == list(range(VOCAB))
    found = candidates.log_probs(logits[:, candidates.ids])
    torch.testing.assert_close(found, logits.log_softmax(-1)[:, candidates.ids])
    ids = torch.tensor([[7, 3], [3, 7], [7, -1]])
    picked = candidates.pick(found, ids)
    expected = logits.log_softmax(-1).gather(1, ids.clamp(min=0))
    torch.testing.assert_close(picked[:2], expected[:2])
    torch.testing.assert_close(picked[2, 0], expected[2, 0])


def test_the_wanted_are_certain_and_nothing_is_twice():
    candidates = draw([49, -1, 0, 0], 10)
    assert candidates.ids[:2].tolist() == [0, 49] and len(candidates.ids.unique()) == 12
    assert candidates.log_weight[:2].tolist() == [0, 0]
    assert candidates.log_weight[2:].exp().tolist() == pytest.approx([4.8] * 10)
    assert draw([1], 10, seed=1).ids.tolist() != draw([1], 10, seed=2).ids.tolist()


def partition(logits, weighted, num_runs=400):
    """Mean and standard error of the estimated sum of exp(logits) over seeds."""
    sums = []
    for seed in range(num_runs):
        candidates = draw([4, 5], 12, seed)
        shift = candidates.log_weight if weighted else 0
        sums.append(float((logits[candidates.ids] + shift).exp().sum()))
    sums = torch.tensor(sums)
    return float(sums.mean()), float(sums.std()) / num_runs**0.5


def test_the_sum_over_the_vocabulary_is_right_on_average():
    logits = torch.randn(VOCAB, generator=torch.Generator().manual_seed(2))
    mean, error = partition(logits, weighted=True)
    assert abs(mean - float(logits.exp().sum())) < 4 * error
    mean, error = partition(logits, weighted=False)  # each drawn one standing for itself alone
    assert abs(mean - float(logits.exp().sum())) > 20 * error


def test_soft_cross_entropy_is_torchs():
    generator = torch.Generator().manual_seed(3)
    logits, law = torch.randn(2, 4, 6, generator=generator)
    probs = law.softmax(-1)
    found = soft_cross_entropy(logits.log_softmax(-1), 0.3 * probs)  # a law known in part
    torch.testing.assert_close(found, F.cross_entropy(logits, probs, reduction="none"))
