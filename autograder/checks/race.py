"""The race of Lesson 8: the engine, driven by the student's choice, against target-only decoding.

Both sides are the course's engine in a sandboxed worker; the student's also runs their cells and
asks `choose_spec_method` before every request. Prompts are of the two kinds on which the methods
were measured. A student whose engine loses although the choice is right does not fail: the grader
then lets its own choice run, and if that loses too the machine is not fit to tell.
"""

import contextlib
import os
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autograder import machine
from autograder.checks.figures import Figures
from autograder.checks.race_prompts import copy_request, json_request
from autograder.sandbox.launcher import Extras, Limits
from autograder.sandbox.session import Cell, Sandbox
from autograder.speed_decision import Decision, Pair, Rules, Timing, decide, record
from autograder.speedup import Race, Task, Trial
from lessons.lib.checks import cost_model
from lessons.lib.checks.asking import Rejected
from lessons.lib.checks.outcome import Outcome, Student
from lessons.lib.model.weight_cache import CACHE_VARIABLE, cache_folder

# No committed measurement backs this yet. What n-gram lookup reaches on a machine, and with what
# spread, `python -m autograder.race_ledger` tells.
BAR = 1.1
NUM_TOKENS = 24
RULES = Rules(bar=BAR, attempts=2)
LIMITS = Limits(
    memory_bytes=8 << 30, cpu_s=900, start_s=120.0, cell_s=180.0, call_s=60.0, total_s=600.0
)
DRIVER = Path(__file__).with_name("race_driver.py")
DRIVER_NAMES = ("race_decode", "race_gap", "race_facts")
# In bfloat16 a verify of several tokens rounds otherwise than a decode of one, so that near-ties
# flip. Logits of this model are near 20, where neighbouring bfloat16 numbers lie 0.125 apart.
NEAR_TIE = 1.0


@dataclass(frozen=True)
class Engine:
    """One side: a sandbox with the engine in it, and how its requests are to be decoded."""

    box: Sandbox
    options: tuple[Any, ...]

    def call(self, *texts: str) -> Outcome:
        return self.box.call("race_decode", list(texts), NUM_TOKENS, *self.options)

    def pause(self) -> None:
        self.box.pause()

    def resume(self) -> None:
        self.box.resume()


def require_speedup(student: Student, figures: Figures, rng: random.Random) -> Decision:
    """The decision of the race when it is passed. Raises Rejected otherwise."""
    name, predicted = figures.best()
    where = f"on json and copy prompts on {figures.device}"
    if predicted <= BAR:
        raise Rejected(
            f"no race: {where} no measured method is predicted to be {BAR:g} times as fast",
            "not_measured",
        )
    if figures.can_race:
        assert isinstance(student, Sandbox), "only the grader races"
        decision = race(student, figures, rng)
    else:
        decision = foretold(student, figures)
    decision = replace(decision, reason=f"{where}: {decision.reason}")
    if decision.verdict != "pass":
        raise Rejected(
            decision.reason, decision.verdict, hint=decision.hint, values=decision.values
        )
    return decision


def foretold(student: Student, figures: Figures) -> Decision:
    """The decision on the times that the cost model predicts, where nothing is raced."""
    budget = figures.all_fit_gb
    outcome = student.call("choose_spec_method", figures.methods, figures.baseline_ms, budget)
    speeds = {m["name"]: cost_model.speedup(m, figures.baseline_ms) for m in figures.methods}
    speed = speeds.get(outcome.value[0], 1.0) if outcome.is_value else 1.0
    baseline = Timing(figures.baseline_ms, figures.baseline_ms)
    ours = Timing(figures.baseline_ms / speed, figures.baseline_ms / speed)
    pairs = [Pair(baseline, ours)] * RULES.pairs
    decision = decide(pairs, RULES)
    reason = f"{decision.reason} (predicted: nothing was raced)"
    return replace(decision, reason=reason, values=record(pairs, RULES))


def race(student: Sandbox, figures: Figures, rng: random.Random) -> Decision:
    """Start both engines, let them run, and in doubt ask what the right choice would do."""
    isolation, extras = student.isolation, needed_extras()
    chosen = (figures.methods, figures.baseline_ms, figures.all_fit_gb)
    with (
        ThreadPoolExecutor(1) as starts,  # a worker dies with the thread that started it
        Sandbox(LIMITS, isolation, extras) as baseline_box,
        Sandbox(LIMITS, isolation, extras) as student_box,
    ):
        starting = starts.submit(student_box.run_cells, [driver_cell(), *student.cells])
        baseline_box.run_cells([driver_cell()])
        starting.result()
        trial = make_trial(baseline_box, max_depth(figures.methods))
        baseline, driven = Engine(baseline_box, ([], 0.0, 0.0)), Engine(student_box, chosen)
        decision = started(driven, baseline, trial).run(rng)
        if decision.verdict != "fail":
            return decision
        student_box.run_cells([driver_cell(), right_choice(figures)])
        control = started(driven, baseline, trial).run(rng)
    if control.verdict == "pass":
        return decision
    return Decision(
        "not_measured",
        f"the race shows nothing here: the grader's own choice did not pass either"
        f" ({control.reason})",
        "hint-not-measured",
        {**decision.values, "control": control.values},
    )


def started(student: Engine, baseline: Engine, trial: Trial) -> Race:
    """A race on this machine."""
    return Race(
        student,
        baseline,
        trial,
        RULES,
        LIMITS.call_s,
        turn=machine.turn,
        flush=machine.flush_caches,
        state=machine.state,
    )


def make_trial(baseline: Sandbox, depth: int) -> Trial:
    """One request of each kind a time; greedy, so that the target's own output is the reference."""
    facts = baseline.call("race_facts")
    if not facts.is_value:
        ran = baseline.cell_outcomes.get("race_driver", facts)
        raise Rejected(
            f"the race's engine did not start: {ran.error_type} {ran.detail}".strip(),
            "not_measured",
        )
    num_passes = 2 * (1 + -(-(NUM_TOKENS - 1) // (1 + depth)))  # a prefill, then full rounds
    floor_ms = machine.roofline_ms(num_passes * facts.value["bytes"])
    share = num_passes / (2 * NUM_TOKENS)

    def draw(rng: random.Random) -> Task:
        return Task((json_request(rng), copy_request(rng)), floor_ms, share)

    def forgive(task: Task, output: Any) -> bool:
        if not is_whole(task, output):  # the right beginning of an answer is no near-tie
            return False
        gaps = [baseline.call("race_gap", *pair) for pair in zip(task.args, output, strict=True)]
        return all(gap.is_value and gap.value <= NEAR_TIE for gap in gaps)

    return Trial(draw, output_problem, forgive)


def output_problem(task: Task, expected: Any, got: Any) -> str:
    """Right number, length and kind of tokens, then the target's own. Comparing only."""
    if not is_whole(task, got):
        return "the engine put out something other than the tokens it was asked for"
    return "" if got == expected else "the tokens are not those of the target"


def is_whole(task: Task, output: Any) -> bool:
    """A list for each text, each of as many whole numbers as tokens were asked for."""
    return (
        type(output) is list
        and len(output) == len(task.args)
        and all(type(ids) is list and len(ids) == NUM_TOKENS for ids in output)
        and all(type(token) is int for ids in output for token in ids)
    )


def max_depth(methods: Sequence[cost_model.Method]) -> int:
    """The most drafts that a round of any method can have; the names end in it."""
    return max(int(method["name"].rpartition("-")[2]) for method in methods)


def driver_cell() -> Cell:
    """The engine, before anything of a student's."""
    return Cell("race_driver", "setup", DRIVER.read_text(encoding="utf-8"), DRIVER_NAMES)


def right_choice(figures: Figures) -> Cell:
    """The grader's own choice in place of a student's."""
    name, predicted = figures.best()
    source = f"def choose_spec_method(*arguments):\n    return {name!r}, {predicted!r}\n"
    return Cell("right_choice", "exercise", source, ("choose_spec_method",))


def needed_extras() -> Extras:
    """What the engine needs in the sandbox: the converted weights, all cores, the card."""
    folder, cores = cache_folder().resolve(), str(len(os.sched_getaffinity(0)))
    for path in folder.glob("*"):  # public weights, which an unprivileged worker has to read
        with contextlib.suppress(OSError):
            path.chmod(path.stat().st_mode | 0o444)
    environment = {CACHE_VARIABLE: str(folder), "OMP_NUM_THREADS": cores}
    nodes = tuple(sorted(path for path in Path("/dev").glob("nvidia*") if not path.is_dir()))
    return Extras((folder,) if folder.is_dir() else (), nodes, environment)
