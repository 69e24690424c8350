"""Speed of the grader's own engine with a student's function, beside the engine without it.

Both engines run here and on the grader's clock; the student's process only answers the calls of its
function, and is stopped while the other engine runs. The protocol is that of `speedup`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autograder import machine
from autograder.speed_decision import Decision, Rules
from autograder.speedup import Race, Task, Trial
from lessons.lib.checks.outcome import Outcome, Student

Generate = Callable[[list[int]], list[int]]
CALL_S = 60.0


@dataclass(frozen=True)
class EngineSide:
    """One engine: `generate` continues a prompt and returns the new tokens.

    student: whose process has to be stopped while the other side runs; None for the baseline.
    """

    generate: Generate
    student: Student | None = None

    def call(self, *args: Any) -> Outcome:
        """Generate; both clocks of the protocol are the grader's here."""
        started = time.perf_counter()
        tokens = self.generate(*args)
        return Outcome("value", value=tokens, worker_ms=(time.perf_counter() - started) * 1e3)

    def pause(self) -> None:
        if self.student is not None:
            self.student.pause()

    def resume(self) -> None:
        if self.student is not None:
            self.student.resume()


def race(
    baseline: Generate,
    theirs: Generate,
    student: Student,
    prompts: Sequence[list[int]],
    rng: random.Random,
    rules: Rules,
) -> Decision:
    """Is the engine faster with the student's function than without, on the same tokens?

    Prompts come in an order that `rng` draws. Both engines should have seen them once, so that
    only decoding is timed.
    """

    def differs(task: Task, expected: Any, got: Any) -> str:
        return "" if got == expected else "the text differs from the baseline's"

    def draw(rng: random.Random) -> Task:
        return Task((rng.choice(prompts),))

    runner = Race(
        student=EngineSide(theirs, student),
        baseline=EngineSide(baseline),
        trial=Trial(draw, differs),
        rules=rules,
        call_s=CALL_S,
        turn=machine.turn,
        state=machine.state,
    )
    return runner.run(rng)
