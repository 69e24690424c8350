"""The adaptive depth: up and down with what is accepted, steady in between, zero where it must."""

import random
from itertools import pairwise

import pytest

from kernels.runtime import InputError
from lessons.lib.draft.adaptive import AdaptiveDepth, DepthController, DepthRule

QUICK = DepthRule(num_warm_up=0, interval=1, num_rest=1)


def run(controller, accepted):
    """Depth after each step; accepted drafts are a number or a function of the depth."""
    depths = []
    for value in accepted:
        controller.observe([value(controller.depth) if callable(value) else value])
        depths.append(controller.depth)
    return depths


def everything(depth):
    return depth


def test_it_goes_up_down_and_up_again():
    controller = DepthController((1, 3, 7), DepthRule())
    assert run(controller, [everything] * 60)[-1] == 7
    assert run(controller, [0] * 60)[-1] == 1
    assert run(controller, [everything] * 60)[-1] == 7


def test_it_drops_to_zero_and_comes_back():
    controller = DepthController((0, 1, 3), DepthRule(num_rest=20))
    assert 0 in run(controller, [0] * 40)
    depths = run(controller, [0] * 500)
    assert set(depths) == {0, 1}
    assert depths.count(0) > 3.5 * depths.count(1)  # 20 steps of rest for 5 of trial
    assert run(controller, [everything] * 80)[-1] == 3


def test_nothing_is_decided_before_the_warm_up_and_between_intervals():
    controller = DepthController((1, 3, 7), DepthRule(num_warm_up=10, interval=5, weight=0.9))
    depths = [controller.depth, *run(controller, [0] * 14), *run(controller, [0])]
    assert depths == [3] * 15 + [1]
    depths = run(controller, [everything] * 10)
    assert depths == [1] * 4 + [3] * 5 + [7]


def test_the_gap_between_the_thresholds_keeps_it_from_flapping():
    """Averages that wander around one threshold cross it often, and both of them rarely."""
    rng = random.Random(0)
    noise = [rng.choice([0, 1]) for _ in range(2000)]  # average 0.5: the threshold from 1 to 3

    def num_switches(down_hysteresis):
        rule = DepthRule(num_warm_up=0, interval=1, down_hysteresis=down_hysteresis)
        depths = run(DepthController((1, 3), rule), noise)
        return sum(a != b for a, b in pairwise(depths))

    assert num_switches(0.0) > 200
    assert num_switches(-0.25) < num_switches(0.0) / 4
    assert num_switches(-0.5) <= 1


def test_inside_the_gap_nothing_changes_whatever_the_depth():
    for start in (1, 3):
        controller = DepthController((1, 3), QUICK)
        run(controller, [0] * 50 if start == 1 else [everything] * 50)
        assert controller.depth == start
        controller.average = 0.4
        assert set(run(controller, [0.4] * 50)) == {start}


@pytest.mark.parametrize("candidates", [(1, 3, 7), (0, 1, 3), (0, 2, 4, 8), (2,), (0,)])
def test_every_decision_is_the_rules(candidates):
    """Down only to where the average is below every threshold passed; never left below."""
    rule = DepthRule(num_warm_up=0, interval=1, num_rest=1, weight=0.5)
    for seed in range(30):
        rng = random.Random(seed)
        controller = DepthController(candidates, rule)
        for _ in range(60):
            before = controller.depth
            controller.observe([rng.randint(0, before) for _ in range(4)])
            after, average = controller.depth, controller.average
            assert after in candidates
            if before == 0:
                assert after == min((d for d in candidates if d > 0), default=0)
                continue
            for passed in (d for d in candidates if after <= d < before):
                assert average <= rule.down_threshold(passed)
            if after < before:
                shallower = [d for d in candidates if d < after]
                assert not shallower or average > rule.down_threshold(shallower[-1])
            else:
                assert after == candidates[-1] or average <= rule.up_threshold(after)
                for passed in (d for d in candidates if before <= d < after):
                    assert average > rule.up_threshold(passed)


def test_the_average_is_that_of_the_requests_of_a_step():
    controller = DepthController((1, 3, 7), DepthRule(weight=0.25))
    controller.observe([0, 2, 4, 6])
    assert controller.average == pytest.approx(2 + 0.25 * (3 - 2))


def test_a_step_without_drafts_is_no_news_unless_none_were_allowed():
    controller = DepthController((0, 1), QUICK)
    assert controller.depth == 1
    for _ in range(10):
        controller.observe([])
    assert controller.depth == 1 and controller.average == 0
    controller.observe([0])
    assert controller.depth == 0
    controller.observe([])
    assert controller.depth == 1


def test_batch_sizes_have_candidates_and_averages_of_their_own():
    policy = AdaptiveDepth()
    for _ in range(60):
        policy.observe(1, [policy.depth(1)])
        policy.observe(8, [0] * 8)
    assert policy.depth(1) == 7
    assert policy.depth(8) in (0, 1)
    assert policy.depth(64) == policy.depth(1000) == 0


def test_other_batch_sizes_go_with_the_nearest_the_larger_on_a_tie():
    policy = AdaptiveDepth({1: [1], 9: [2], 11: [3]})
    assert [policy.depth(batch) for batch in (1, 4, 5, 10, 12)] == [1, 1, 2, 3, 3]


@pytest.mark.parametrize("candidates", [{}, {1: []}, {1: [-1]}, {0: [1]}])
def test_impossible_candidates_are_refused(candidates):
    with pytest.raises(InputError, match="adaptive depth"):
        AdaptiveDepth(candidates)


@pytest.mark.parametrize(
    "wrong, message",
    [
        (dict(weight=0), "weight"),
        (dict(interval=0), "interval"),
        (dict(num_warm_up=-1), "num_warm_up"),
        (dict(down_hysteresis=0.5), "down_hysteresis"),
    ],
)
def test_an_impossible_rule_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        DepthRule(**wrong)
