"""The adaptive depth finds what pays: in a simulated engine of known acceptance and costs."""

import math
import random
import statistics

import pytest

from kernels.runtime import InputError
from lessons.lib.draft.adaptive import AdaptiveDepth, DepthController, DepthRule
from lessons.lib.draft.depth_facts import Averages, StepTimes

ALPHAS = (0.05, 0.3, 0.6, 0.9)
COSTS = (0.1, 2.0, 5.0)  # ms a draft, beside a plain step of 20


class Simulated:
    """Rounds whose drafts survive with chance alpha each, in steps of a known length.

    hit: share of the rounds that find anything to draft; the others cost nothing.
    """

    def __init__(self, alpha, draft_ms, row_ms=0.5, batch=1, hit=1.0, noise=0.03, seed=0):
        self.alpha, self.draft_ms, self.row_ms = alpha, draft_ms, row_ms
        self.batch, self.hit, self.noise = batch, hit, noise
        self.rng = random.Random(f"{seed} {alpha} {draft_ms}")

    def ms(self, depth):
        return 20 + depth * (self.draft_ms + self.row_ms)

    def outcome(self, depth):
        if not depth or self.rng.random() > self.hit:
            return 0, 0
        accepted = 0
        while accepted < depth and self.rng.random() < self.alpha:
            accepted += 1
        return depth, accepted

    def speed(self, depth):
        """Tokens of a request per ms, at a fixed depth."""
        gain = self.hit * sum(self.alpha**k for k in range(1, depth + 1))
        return (1 + gain) / (self.hit * self.ms(depth) + (1 - self.hit) * 20)

    def run(self, controller, num_steps):
        """(speedup over no drafts, depth of each step)"""
        depths, total_ms, tokens = [], 0.0, 0.0
        for _ in range(num_steps):
            depth = controller.depth
            rounds = [self.outcome(depth) for _ in range(self.batch)]
            ms = self.ms(depth if any(drafted for drafted, _ in rounds) else 0)
            controller.observe(rounds, ms * (1 + self.noise * self.rng.uniform(-1, 1)))
            depths.append(depth)
            total_ms += ms
            tokens += 1 + statistics.fmean(accepted for _, accepted in rounds)
        return 20 * tokens / total_ms, depths


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("draft_ms", COSTS)
@pytest.mark.parametrize("batch", [1, 8])
def test_it_is_close_to_the_best_fixed_depth_and_never_loses(alpha, draft_ms, batch):
    candidates = (0, 1, 3, 7)
    case = Simulated(alpha, draft_ms, batch=batch)
    best = max(case.speed(depth) for depth in candidates) * 20
    speeds = []
    for seed in range(5):
        world = Simulated(alpha, draft_ms, batch=batch, seed=seed)
        speeds.append(world.run(DepthController(candidates, DepthRule(), batch), 600)[0])
    assert min(speeds) > 0.97
    assert statistics.fmean(speeds) > 0.9 * best


def test_thresholds_that_know_no_times_would_lose():
    """What the rule is for: half of dear drafts accepted pays at no depth. SGLang's thresholds stay
    at depth 1 while the average is above a quarter."""
    dear = Simulated(alpha=0.45, draft_ms=12.0)
    assert dear.speed(1) < 0.97 * dear.speed(0)
    speed, depths = dear.run(DepthController((0, 1, 3), DepthRule()), 800)
    assert speed > 0.97 and depths.count(0) > 0.9 * len(depths)


def test_it_goes_up_when_drafts_get_better_and_down_when_they_get_worse():
    controller = DepthController((0, 1, 3, 7), DepthRule())
    good, bad = Simulated(0.95, 1.0), Simulated(0.1, 3.0)
    assert good.run(controller, 80)[1][-1] == 7
    assert bad.run(controller, 80)[1][-1] == 0
    assert 7 in good.run(controller, 400)[1][-20:]


def test_a_lookup_that_rarely_finds_anything_goes_on():
    """A step without a match costs nothing, so it is no reason to stop."""
    rare = Simulated(0.9, 0.0, hit=0.2)
    speed, depths = rare.run(DepthController((0, 1, 3, 7), DepthRule()), 600)
    assert speed > 1.2 and depths[-200:].count(7) > 150


def test_a_step_in_which_nothing_was_found_is_no_news():
    controller = DepthController((0, 2), DepthRule(num_plain=1, interval=4))
    controller.observe([(0, 0)], 20.0)
    for _ in range(50):
        controller.observe([(0, 0), (0, 0)], 99.0)
    assert controller.depth == 2 and controller.times.ms(2) is None
    for _ in range(3):
        controller.observe([(2, 2), (0, 0)], 30.0)
    assert controller.averages.gained == 1 and controller.times.ms(2) == 30


def test_it_begins_without_drafts_then_tries_the_least():
    controller = DepthController((0, 2, 4), DepthRule(num_plain=3, interval=4, num_rest=33))
    depths = Simulated(0.0, 5.0, noise=0).run(controller, 40)[1]
    assert depths == [0] * 3 + [2] * 4 + [0] * 33


@pytest.mark.parametrize("draft_ms", [0.3, 3.0, 15.0])
def test_the_rest_is_as_long_as_the_trial_was_dear(draft_ms):
    """What trials lose is a share of all time, for cheap drafters and for dear ones."""
    rule = DepthRule(num_rest=10, share=0.05)
    world = Simulated(0.0, draft_ms, noise=0)
    speed, depths = world.run(DepthController((0, 1), rule), 3000)
    rests = [len(rest) for rest in "".join(map(str, depths)).strip("0").split("1") if rest]
    lost = 4 * (draft_ms + 0.5) / 20  # of a trial, in plain steps
    assert set(rests) == {max(10, math.ceil(lost / 0.05))}
    assert 0.94 < speed < 1


def test_a_trial_that_is_hopeless_ends_after_its_second_step():
    dear = Simulated(0.0, 30.0, noise=0)
    for hopeless, steps in ((0.5, 2), (0.01, 4)):
        controller = DepthController((0, 1), DepthRule(hopeless=hopeless))
        assert dear.run(controller, 40)[1][2:].index(0) == steps


def test_while_drafts_pay_a_plain_step_now_and_then_keeps_its_time_known():
    controller = DepthController((0, 3), DepthRule(num_rest=20))
    depths = Simulated(0.9, 0.5).run(controller, 200)[1][20:]
    plain = [step for step, depth in enumerate(depths) if depth == 0]
    assert 7 <= len(plain) <= 9 and all(depths[step + 1] == 3 for step in plain)


def test_a_large_batch_decides_after_fewer_steps_but_not_after_one():
    for batch, steps in ((1, 8), (2, 4), (4, 3), (64, 3)):
        controller = DepthController((0, 1), DepthRule(interval=8, num_plain=1), batch)
        depths = Simulated(0.0, 9.0, batch=batch, noise=0).run(controller, 20)[1]
        assert depths.index(0, 1) - 1 == steps


def test_few_rounds_make_no_certainty():
    averages = Averages(weight=0.2)
    averages.add([(1, 1)])
    assert averages.rate == pytest.approx(2 / 3)
    for _ in range(200):
        averages.add([(3, 2)])
    assert averages.rate == pytest.approx((2 + 0.2) / (3 + 0.4))
    averages.start()
    averages.add([(1, 0), (1, 1)])
    assert (averages.accepted, averages.rejected, averages.gained) == (0.5, 0.5, 0.5)


def test_rounds_without_drafts_count_in_what_is_gained_and_not_in_the_rate():
    averages = Averages(weight=1.0)
    averages.add([(0, 0), (4, 4), (0, 0), (4, 2)])
    assert averages.gained == 1.5 and averages.accepted == 3
    assert averages.gain(4, now=4) == pytest.approx(1.5)
    rate = averages.rate
    expected = 1.5 * rate / sum(rate**k for k in range(1, 5))
    assert averages.gain(1, now=4) == pytest.approx(expected)


def test_times_are_medians_and_lines_between_them():
    times = StepTimes(window=3)
    assert times.ms(0) is None
    for ms in (99, 10, 11, 12):  # the first one is forgotten
        times.add(0, ms)
    assert times.ms(0) == 11 and times.ms(3) is None
    times.add(1, 13)
    assert times.ms(3) == 11 + 3 * 2
    times.add(3, 14)
    assert times.ms(2) == 13.5 and times.ms(7) == 16
    times.add(3, 1)
    times.add(3, 1)
    assert times.ms(7) == 1  # a line that falls is noise


def test_steps_that_computed_prompts_tell_of_acceptance_and_not_of_time():
    controller = DepthController((0, 1), DepthRule(num_plain=1))
    controller.observe([(0, 0)], None)
    assert controller.times.ms(0) is None and controller.depth == 1
    controller.observe([(1, 1)], None)
    assert controller.averages.gained == 1 and controller.times.ms(1) is None


def test_batch_sizes_have_candidates_and_controllers_of_their_own():
    policy = AdaptiveDepth()
    for _ in range(60):
        for batch, alpha in ((1, 1), (8, 0)):
            depth = policy.depth(batch)
            policy.observe([(depth, depth * alpha)] * batch, 20.0 + depth)
    assert policy.depth(1) == 7 and policy.depth(8) == policy.depth(5) == 0
    assert policy.depth(64) == policy.depth(1000) == 0


def test_a_new_class_begins_with_what_the_nearest_one_knows():
    """A batch that shrinks while its requests end does not explore anew at every size."""
    for alpha, draft_ms, expected in ((0.0, 9.0, 0), (0.95, 0.1, 3)):
        policy = AdaptiveDepth({1: (0, 1, 3)}, DepthRule(num_rest=500))
        world = Simulated(alpha, draft_ms, batch=8)
        for _ in range(60):
            depth = policy.depth(8)
            policy.observe([world.outcome(depth) for _ in range(8)], world.ms(depth))
        for batch in (4, 2, 1):
            depths = []
            for _ in range(12):
                depths.append(policy.depth(batch))
                outcomes = [world.outcome(depths[-1]) for _ in range(batch)]
                policy.observe(outcomes, world.ms(depths[-1]))
            assert set(depths) == {expected}


def test_other_batch_sizes_go_with_the_nearest_power_of_two_the_larger_on_a_tie():
    policy = AdaptiveDepth({1: [1], 12: [2], 20: [3]})
    assert [policy.depth(batch) for batch in (1, 2, 5, 8, 9, 16, 17)] == [1, 1, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("candidates", [{}, {1: []}, {1: [-1]}, {0: [1]}])
def test_impossible_candidates_are_refused(candidates):
    with pytest.raises(InputError, match="adaptive depth"):
        AdaptiveDepth(candidates)


WRONG = {"weight": 1.5, "interval": 0, "num_plain": 0, "margin": -0.1, "window": 0, "share": 0}


@pytest.mark.parametrize("name", WRONG)
def test_an_impossible_rule_is_refused(name):
    with pytest.raises(InputError, match="adaptive"):
        DepthRule(**{name: WRONG[name]})
