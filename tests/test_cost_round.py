"""Chains: tokens, gain and depth, against closed forms, simulation and published measurements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.runtime import InputError
from lessons.lib import cost
from lessons.lib.cost import RoundModel

shares = st.floats(0, 1)

# Optimal depth and gain by acceptance (rows) and cost ratio (columns), computed by hand.
RATIOS = (0.01, 0.05, 0.1, 0.2, 0.4)
TABLE = {
    0.5: ((5, 1.88), (3, 1.63), (2, 1.46), (1, 1.25), (1, 1.07)),
    0.6: ((7, 2.30), (4, 1.92), (3, 1.67), (2, 1.40), (1, 1.14)),
    0.7: ((9, 2.97), (6, 2.35), (4, 1.98), (3, 1.58), (2, 1.22)),
    0.8: ((14, 4.23), (8, 3.09), (6, 2.47), (4, 1.87), (2, 1.36)),
    0.9: ((24, 7.49), (13, 4.67), (10, 3.43), (7, 2.37), (4, 1.58)),
}

# vllm issue 20780: Llama-3.1-8B, MT-Bench, batch 1, H100; K -> acceptance length and ms per token.
VANILLA_MS = 7.07
EAGLE = {2: (2.10, 4.37), 3: (2.29, 4.29), 4: (2.39, 4.48), 5: (2.43, 4.71), 6: (2.45, 4.94)}
EAGLE[7] = (2.47, 5.20)
EAGLE3 = {2: (2.36, 4.32), 3: (2.79, 4.09), 4: (3.08, 4.05), 5: (3.32, 4.13), 6: (3.46, 4.20)}
EAGLE3[7] = (3.54, 4.29)


def linear_model(survival, draft=1.0, base=10.0, slope=0.0, overhead=0.0):
    return RoundModel(
        survival,
        draft_ms=lambda batch, depth: draft * depth,
        step_ms=lambda batch, tokens: base + slope * batch * tokens,
        overhead_ms=overhead,
    )


def test_tokens_follow_from_conditionals():
    assert cost.survival_curve([0.8, 0.7, 0.5]) == pytest.approx([0.8, 0.56, 0.28])
    assert cost.expected_tokens([0.8, 0.7, 0.5]) == pytest.approx(2.64)
    assert cost.expected_tokens([]) == 1.0


@given(shares, st.integers(0, 12))
def test_constant_acceptance_is_the_special_case(alpha, depth):
    assert cost.leviathan_tokens(alpha, depth) == pytest.approx(
        cost.expected_tokens([alpha] * depth)
    )


def test_tokens_agree_with_playing_rounds():
    alphas, rounds = np.array([0.8, 0.7, 0.5]), 200_000
    accepted = np.random.default_rng(0).random((rounds, 3)) < alphas
    emitted = 1 + np.cumprod(accepted, axis=1).sum(axis=1)
    error = emitted.std() / np.sqrt(rounds)
    assert abs(emitted.mean() - cost.expected_tokens(alphas)) < 4 * error


@pytest.mark.parametrize("alpha", TABLE)
def test_the_table_of_optima(alpha):
    found = [cost.leviathan_optimum(alpha, ratio) for ratio in RATIOS]
    assert [(depth, round(gain, 2)) for depth, gain in found] == list(TABLE[alpha])


@given(st.floats(0, 0.95), st.floats(0.01, 1))
def test_the_optimum_beats_every_depth(alpha, ratio):
    depth, gain = cost.leviathan_optimum(alpha, ratio)
    everywhere = [cost.leviathan_speedup(alpha, g, ratio) for g in range(120)]
    assert gain == pytest.approx(max(everywhere))
    assert (depth > 0) == (alpha > ratio)
    if depth:
        assert gain >= (1 + alpha) / (1 + ratio) - 1e-12  # what depth 1 gives


def test_operations_grow_with_rejections():
    assert cost.leviathan_operations(1.0, 4, 0.0) == 1.0
    assert cost.leviathan_operations(0.0, 4, 0.5) == 7.0


@given(
    st.lists(shares, min_size=1, max_size=10),
    st.floats(0.01, 5),
    st.floats(0, 0.5),
    st.integers(1, 64),
)
def test_marginal_rule_finds_the_best_depth_without_overhead(alphas, draft, slope, batch):
    model = linear_model(cost.survival_curve(alphas), draft=draft, slope=slope)
    best, stopped = model.best_depth(batch), model.marginal_depth(batch)
    assert model.goodput(batch, stopped) == pytest.approx(model.goodput(batch, best))


def test_overhead_can_hide_a_gain_from_the_marginal_rule():
    model = linear_model([0.9, 0.85, 0.8, 0.75], draft=0.1, overhead=9.5)
    assert model.marginal_depth(1) == 0
    assert model.best_depth(1) == 4 and model.speedup(1, 4) > 1.5


def test_a_staircase_puts_the_optimum_at_its_edge():
    model = RoundModel(
        cost.survival_curve([0.9] * 10),
        draft_ms=lambda batch, depth: 0.1 * depth,
        step_ms=lambda batch, tokens: 10.0 if tokens <= 4 else 20.0,
    )
    assert model.best_depth(1) == 3  # four rows: the last that the small graph takes


def test_larger_batches_want_shallower_drafts():
    model = linear_model(cost.survival_curve([0.7] * 8), draft=0.5, slope=0.1)
    depths = list(model.depth_schedule([1, 4, 16, 64, 256]).values())
    assert depths == sorted(depths, reverse=True)
    assert depths[0] >= 3 and depths[-1] == 0


def test_goodput_and_speedup_are_one_model():
    model = linear_model([0.8, 0.5], draft=1.0, slope=0.25, overhead=0.5)
    assert model.round_ms(4, 2) == 2 + (10 + 0.25 * 12) + 0.5
    assert model.speedup(4, 2) == pytest.approx(2.3 * 11 / 15.5)
    assert model.goodput(4, 2) / model.goodput(4, 0) == pytest.approx(model.speedup(4, 2))


def published_model(table, slope, base):
    """Rounds that cost base + slope * K; S_1 and S_2 are not published: taken as equal to fit."""
    lengths = [length for length, _ in table.values()]
    first = (lengths[0] - 1) / 2
    return linear_model([first, first, *np.diff(lengths)], draft=slope, base=base)


@pytest.mark.parametrize(
    ("table", "slope", "base", "best"), [(EAGLE, 0.740, 7.69, 3), (EAGLE3, 1.016, 8.35, 4)]
)
def test_published_rounds_give_the_measured_optimum(table, slope, base, best):
    depths = list(table)
    rounds = [length * ms for length, ms in table.values()]
    fitted_slope, fitted_base = np.polyfit(depths, rounds, 1)
    assert fitted_slope == pytest.approx(slope, abs=0.005)
    assert fitted_base == pytest.approx(base, abs=0.02)
    model = published_model(table, fitted_slope, fitted_base)
    measured = min(table, key=lambda depth: table[depth][1])
    assert model.best_depth(1) == model.marginal_depth(1) == measured == best
    for depth, (length, ms) in table.items():
        assert model.tokens(depth) == pytest.approx(length)
        assert model.round_ms(1, depth) / length == pytest.approx(ms, rel=0.03)


def test_published_draft_step_costs_a_seventh_of_a_target_step():
    slope, base = np.polyfit(list(EAGLE3), [length * ms for length, ms in EAGLE3.values()], 1)
    assert slope / VANILLA_MS == pytest.approx(0.144, abs=0.001)
    assert base / VANILLA_MS == pytest.approx(1.18, abs=0.005)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: cost.survival_curve([0.5, 1.2]),
        lambda: cost.leviathan_tokens(0.5, -1),
        lambda: cost.leviathan_speedup(0.5, 2, -0.1),
        lambda: cost.leviathan_optimum(0.9, 0.0),
        lambda: linear_model([0.5, 0.6]),
        lambda: linear_model([0.5]).tokens(2),
        lambda: linear_model([float("nan")]),
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(InputError):
        wrong()
