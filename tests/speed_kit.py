"""Two simulated sides with a clock of their own: a race without a machine."""

import random
from dataclasses import dataclass, field

from autograder.speed_decision import Rules
from autograder.speedup import Race, Task, Trial
from lessons.lib.checks.outcome import Outcome


class World:
    """The grader's clock, in seconds. Only calls move it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@dataclass
class Runner:
    """A side that needs `ms(task number)` and answers with `answer`."""

    world: World
    ms: object = 100.0
    answer: object = lambda n: n * n
    worker: object = None  # what its clock says of true ms; None: the truth
    calls: list = field(default_factory=list)
    is_paused: bool = False
    lost: object = None

    def call(self, number):
        assert not self.is_paused
        self.calls.append(number)
        took = self.ms(len(self.calls)) if callable(self.ms) else self.ms
        self.world.now += took / 1e3
        if self.lost is not None and len(self.calls) > 2:
            return self.lost
        said = took if self.worker is None else self.worker(took)
        self.world.now += 0.2e-3  # the way back
        return Outcome("value", self.answer(number), worker_ms=said)

    def pause(self):
        self.is_paused = True

    def resume(self):
        self.is_paused = False


def draw(rng):
    return Task((rng.getrandbits(40),), floor_ms=2.0, least_share=0.1)


def problem(task, expected, got):
    return "" if got == expected else "the output is not the baseline's"


def race(student=None, baseline=None, world=None, rules=None, trial=None, **parts):
    """A race of simulated sides; the student is twice as fast unless told otherwise."""
    world = world or World()
    return Race(
        student or Runner(world, 50.0),
        baseline or Runner(world, 100.0),
        trial or Trial(draw, problem),
        rules or Rules(bar=1.2),
        call_s=60.0,
        clock=world,
        **parts,
    )


def noisy(rng: random.Random, ms: float, spread: float):
    """Times around `ms`, some of them stalls."""
    return lambda call: ms * rng.lognormvariate(0, spread) * (8.0 if rng.random() < 0.04 else 1.0)
