import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.sampling import SeededRandom, logits_to_probs, most_likely

LOGITS = torch.tensor([[2.0, 1.0, 0.5, -1.0, -4.0], [0.0, 3.0, 3.0, 1.0, -2.0]])


def by_hand(row, sampling):
    """Plain Python, one token at a time: the slow obvious version."""
    weights = [(2.718281828459045 ** (x / sampling.temperature), i) for i, x in enumerate(row)]
    weights.sort(key=lambda pair: (-pair[0], pair[1]))
    if sampling.top_k:
        weights = weights[: sampling.top_k]
    total = sum(w for w, _ in weights)
    kept, mass = [], 0.0
    for weight, index in weights:
        if mass >= sampling.top_p:
            break
        kept.append((weight / total, index))
        mass += weight / total
    law = [0.0] * len(row)
    for probability, index in kept:
        law[index] = probability / mass
    return law


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [0, 1, 3, 99])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.5, 0.01])
def test_temperature_then_top_k_then_top_p(temperature, top_k, top_p):
    sampling = SamplingParams(temperature, top_k, top_p)
    logits = LOGITS[:1]  # no ties: top-k by hand would have to break them the same way
    probs = logits_to_probs(logits, sampling)
    expected = torch.tensor([by_hand(row, sampling) for row in logits.tolist()])
    assert torch.allclose(probs, expected, rtol=1e-5, atol=1e-7)
    assert torch.allclose(probs.sum(-1), torch.ones(1))


def test_greedy_is_one_hot_on_the_first_argmax():
    probs = logits_to_probs(LOGITS, SamplingParams())
    assert probs.tolist() == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]


def test_bfloat16_logits_are_widened_before_the_softmax():
    logits = torch.randn(3, 500, generator=torch.Generator().manual_seed(0)).bfloat16()
    probs = logits_to_probs(logits, SamplingParams(1.0))
    assert probs.dtype == torch.float32
    assert torch.allclose(probs.sum(-1), torch.ones(3), atol=1e-5)


def test_draws_follow_the_law_and_never_hit_a_zero():
    law = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
    count = 4000
    drawn = torch.tensor([SeededRandom(3).draw(law, position) for position in range(count)])
    seen = torch.bincount(drawn, minlength=6) / count
    assert seen[law == 0].sum() == 0
    # Four standard deviations of a share at this count; a shifted law is out by far more.
    assert (seen - law).abs().max() < 4 * (0.25 / count) ** 0.5


def test_random_numbers_depend_on_seed_position_and_purpose_only():
    law = torch.full((1000,), 1e-3)
    one, again, other = SeededRandom(5), SeededRandom(5), SeededRandom(6)
    tokens = [one.draw(law, position) for position in range(40)]
    assert [again.draw(law, position) for position in reversed(range(40))] == tokens[::-1]
    assert [other.draw(law, position) for position in range(40)] != tokens
    drafts = [SeededRandom(5, is_draft=True).draw(law, position) for position in range(40)]
    assert sum(a == b for a, b in zip(tokens, drafts, strict=True)) <= 2
    rate = sum(one.accepts(0.3, position) for position in range(4000)) / 4000
    assert abs(rate - 0.3) < 4 * (0.21 / 4000) ** 0.5


def test_coin_and_draw_at_one_position_are_independent():
    law, random = torch.tensor([0.5, 0.5]), SeededRandom(11)
    pairs = [(random.accepts(0.5, p), random.draw(law, p) == 0) for p in range(4000)]
    both = sum(coin and draw for coin, draw in pairs) / 4000
    assert abs(both - 0.25) < 4 * (0.1875 / 4000) ** 0.5


@pytest.mark.parametrize(
    "settings, word",
    [
        (dict(temperature=-0.1), "temperature"),
        (dict(temperature=float("nan")), "temperature"),
        (dict(temperature=float("inf")), "temperature"),
        (dict(top_k=-1), "top_k"),
        (dict(top_p=0.0), "top_p"),
        (dict(top_p=1.1), "top_p"),
        (dict(seed=-1), "seed"),
    ],
)
def test_bad_settings_are_named(settings, word):
    with pytest.raises(InputError, match=word):
        SamplingParams(**settings)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocab", [1, 5, 97, 4099])
def test_the_most_likely_token_is_the_first_of_the_best(dtype, vocab):
    torch.manual_seed(vocab)
    logits = torch.randint(-3, 4, (40, vocab)).to(dtype)  # full of ties
    logits[3] = float("-inf")
    expected = [row.index(max(row)) for row in logits.tolist()]
    assert most_likely(logits).tolist() == expected
    assert most_likely(logits[:4, None]).tolist() == [[token] for token in expected[:4]]
