"""The chain rules, judged by their output law; the judges, judged by samplers that are wrong."""

import itertools

import pytest
import torch

from lessons.lib.sampling import SeededRandom
from lessons.lib.verify import (
    Verification,
    residual_probs,
    verify_delta,
    verify_greedy,
    verify_sampled,
)

VOCAB, DEPTH = 4, 2


class Scripted:
    """A RandomSource that plays one branch and keeps its probability."""

    def __init__(self, script):
        self.script, self.options, self.weight = script, [], 1.0

    def _branch(self, law):
        step = len(self.options)
        self.options.append([i for i, p in enumerate(law) if p > 0])
        choice = self.script[step] if step < len(self.script) else self.options[step][0]
        self.weight *= law[choice]
        return choice

    def accepts(self, probability, position):
        return self._branch([1 - probability, probability]) == 1

    def draw(self, probs, position):
        return self._branch(probs.tolist())


def outcomes(run):
    """Every (result, probability) of `run(random)`, by walking the tree of random events."""
    pending = [[]]
    while pending:
        script = pending.pop()
        random = Scripted(script)
        result = run(random)
        yield result, random.weight
        for step in range(len(script), len(random.options)):
            played = script + [options[0] for options in random.options[len(script) : step]]
            pending += [[*played, other] for other in random.options[step][1:]]


def laws(seed, sharpness=1.5):
    """A law for every context up to DEPTH tokens: {context tuple: probs [VOCAB]}."""
    generator = torch.Generator().manual_seed(seed)
    contexts = [c for n in range(DEPTH + 1) for c in itertools.product(range(VOCAB), repeat=n)]
    return {
        c: (sharpness * torch.randn(VOCAB, generator=generator, dtype=torch.float64)).softmax(-1)
        for c in contexts
    }


def target_rows(target, drafts):
    return torch.stack([target[tuple(drafts[:n])] for n in range(len(drafts) + 1)])


def chain_law(target):
    return {
        path: float(torch.stack([target[path[:n]][path[n]] for n in range(DEPTH + 1)]).prod())
        for path in itertools.product(range(VOCAB), repeat=DEPTH + 1)
    }


def output_law(rule, target, draft):
    """Joint law of the first DEPTH + 1 tokens: one round by `rule`, the rest by the target."""
    law = dict.fromkeys(itertools.product(range(VOCAB), repeat=DEPTH + 1), 0.0)
    for drafts in itertools.product(range(VOCAB), repeat=DEPTH):
        rows = torch.stack([draft[drafts[:n]] for n in range(DEPTH)])
        weight = float(rows[range(DEPTH), drafts].prod())
        targets = target_rows(target, drafts)
        for out, branch in outcomes(lambda r, d=drafts, q=rows, p=targets: rule(d, q, p, r, 0)):
            for path in law:
                if path[: len(out.token_ids)] == tuple(out.token_ids[: DEPTH + 1]):
                    rest = [target[path[:n]][path[n]] for n in range(len(out.token_ids), DEPTH + 1)]
                    law[path] += weight * branch * float(torch.tensor(rest).prod())
    return law


def distance(law, other):
    return sum(abs(law[path] - other[path]) for path in law) / 2


def delta_rule(drafts, draft_probs, target_probs, random, position):
    return verify_delta(drafts, target_probs, random, position)


# --- samplers that are wrong in ways seen in public code -------------------------------------


def residual_from_target(drafts, draft_probs, target_probs, random, position):
    """On a rejection draws from the target instead of the residual."""
    for i, x in enumerate(drafts):
        ratio = float(target_probs[i, x] / draft_probs[i, x])
        if not random.accepts(min(1.0, ratio), position + i):
            return Verification(list(drafts[:i]), recovered_token=random.draw(target_probs[i], i))
    return Verification(list(drafts), bonus_token=random.draw(target_probs[-1], len(drafts)))


def bonus_after_rejection(drafts, draft_probs, target_probs, random, position):
    """Replaces a rejected token and still appends the bonus of the last position."""
    out = verify_sampled(drafts, draft_probs, target_probs, random, position)
    if out.recovered_token is None:
        return out
    return Verification(out.token_ids, bonus_token=random.draw(target_probs[-1], 9))


def ratio_at_another_temperature(drafts, draft_probs, target_probs, random, position):
    """Drafts were drawn at one temperature and are scored at another."""
    flatter = draft_probs.sqrt() / draft_probs.sqrt().sum(-1, keepdim=True)
    return verify_sampled(drafts, flatter, target_probs, random, position)


def unnormalised_draft(drafts, draft_probs, target_probs, random, position):
    """Scores with the raw draft law although the drafts came from the filtered one."""
    return verify_sampled(drafts, 0.7 * draft_probs, target_probs, random, position)


def target_one_position_late(drafts, draft_probs, target_probs, random, position):
    """Judges draft i with the law that follows it."""
    shifted = torch.cat((target_probs[1:], target_probs[-1:]))
    return verify_sampled(drafts, draft_probs, shifted, random, position)


def match_of_two_draws(drafts, draft_probs, target_probs, random, position):
    """Accepts on equality with a target draw, but then emits a fresh draw on a mismatch."""
    for i, x in enumerate(drafts):
        if random.draw(target_probs[i], position + i) != x:
            return Verification(
                list(drafts[:i]), recovered_token=random.draw(target_probs[i], 50 + i)
            )
    return Verification(list(drafts), bonus_token=random.draw(target_probs[-1], len(drafts)))


WRONG = [
    residual_from_target,
    bonus_after_rejection,
    ratio_at_another_temperature,
    unnormalised_draft,
    target_one_position_late,
    match_of_two_draws,
]


# --- exact -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", [verify_sampled, delta_rule])
def test_output_law_is_the_targets(rule, seed):
    target, draft = laws(seed), laws(100 + seed)
    assert distance(output_law(rule, target, draft), chain_law(target)) < 1e-9


@pytest.mark.parametrize("rule", WRONG)
def test_enumeration_rejects_wrong_samplers(rule):
    target, draft = laws(0), laws(100)
    assert distance(output_law(rule, target, draft), chain_law(target)) > 1e-2


def test_a_token_the_draft_cannot_propose_is_still_reached():
    target, draft = laws(1), laws(2)
    draft = {c: torch.cat((law[:2] / law[:2].sum(), torch.zeros(2))) for c, law in draft.items()}
    law = dict.fromkeys(range(VOCAB), 0.0)
    for x in range(2):
        for out, weight in outcomes(
            lambda r, x=x: verify_sampled([x], draft[()][None], target_rows(target, [x]), r, 0)
        ):
            law[out.token_ids[0]] += float(draft[()][x]) * weight
    assert torch.allclose(torch.tensor(list(law.values())), target[()].float(), atol=1e-6)
    assert min(law.values()) > 0


def test_acceptance_probability_is_one_minus_total_variation():
    target, draft = laws(3)[()], laws(4)[()]
    rows = torch.stack((target, target))
    accepted = sum(
        float(draft[x]) * weight
        for x in range(VOCAB)
        for out, weight in outcomes(lambda r, x=x: verify_sampled([x], draft[None], rows, r, 0))
        if out.accepted_token_ids
    )
    assert accepted == pytest.approx(1 - float((target - draft).abs().sum()) / 2, abs=1e-9)


def test_residual_of_equal_laws_is_the_target():
    law = laws(0)[()]
    assert torch.equal(residual_probs(law, law), law)
    assert residual_probs(law, law.roll(1)).sum() == pytest.approx(1)


# --- by sampling, with the random source the engine uses -------------------------------------


def chi_square_p_value(observed, expected):
    keep = expected >= 5
    cells = torch.cat((observed[keep], observed[~keep].sum()[None]))
    means = torch.cat((expected[keep], expected[~keep].sum()[None]))
    if means[-1] < 5:
        cells = torch.cat((cells[:-2], cells[-2:].sum()[None]))
        means = torch.cat((means[:-2], means[-2:].sum()[None]))
    statistic = ((cells - means) ** 2 / means).sum()
    return float(torch.special.gammaincc(torch.tensor((len(means) - 1) / 2.0), statistic / 2))


def sampled_p_value(rule, count=4000):
    """Joint law of the first two tokens, drawn by `rule` with SeededRandom, against the target."""
    target, draft = laws(0), laws(100)
    observed = torch.zeros(VOCAB, VOCAB)
    for seed in range(count):
        random, drafting = SeededRandom(seed), SeededRandom(seed, is_draft=True)
        drafts = []
        for position in range(DEPTH):
            drafts.append(drafting.draw(draft[tuple(drafts)], position))
        rows = torch.stack([draft[tuple(drafts[:n])] for n in range(DEPTH)])
        tokens = rule(drafts, rows, target_rows(target, drafts), random, 0).token_ids
        if len(tokens) < 2:  # the next round of a real run starts at this position
            tokens = [*tokens, random.draw(target[tuple(tokens)], 1)]
        observed[tokens[0], tokens[1]] += 1
    expected = torch.stack([target[()][x] * target[(x,)] for x in range(VOCAB)]) * count
    return chi_square_p_value(observed.flatten(), expected.flatten().float())


@pytest.mark.parametrize("rule", [verify_sampled, delta_rule])
def test_sampled_law_passes_chi_square(rule):
    assert sampled_p_value(rule) > 1e-4


@pytest.mark.parametrize("rule", WRONG[:4])
def test_chi_square_has_the_power_to_reject(rule):
    assert sampled_p_value(rule) < 1e-6


# --- the shape of an outcome -----------------------------------------------------------------


@pytest.mark.parametrize(
    "drafts, target, accepted, tokens",
    [
        ([5, 6, 7], [5, 6, 7, 8], 3, [5, 6, 7, 8]),
        ([5, 6, 7], [5, 9, 7, 8], 1, [5, 9]),
        ([5, 6, 7], [4, 6, 7, 8], 0, [4]),
        ([], [4], 0, [4]),
    ],
)
def test_greedy_keeps_the_matching_prefix(drafts, target, accepted, tokens):
    out = verify_greedy(drafts, target)
    assert len(out.accepted_token_ids) == accepted and out.token_ids == tokens
    assert (out.bonus_token is None) == (accepted < len(drafts))
    assert (out.recovered_token is None) == (accepted == len(drafts))


def test_delta_returns_what_plain_sampling_draws():
    target = laws(5)
    plain = []
    for position in range(DEPTH + 1):
        plain.append(SeededRandom(1).draw(target[tuple(plain)], position))
    for drafts in itertools.product(range(VOCAB), repeat=DEPTH):
        out = verify_delta(drafts, target_rows(target, drafts), SeededRandom(1), 0)
        assert out.token_ids == plain[: len(out.token_ids)]
