"""The graded checks of Lesson 8: the public ones on secret inputs, the right sources, and the race.

Each takes what is Graded and returns the reason of its pass, or raises Rejected.
"""

from collections.abc import Callable

from autograder.checks import race, source_map
from autograder.checks.figures import FiguresError
from autograder.checks.graded import Graded
from lessons.lib.checks import cost_model, lesson08
from lessons.lib.checks.asking import Passed, Rejected, is_close
from lessons.lib.checks.lesson08 import CHOOSE, COST_CELL, as_choice, check_boundary, check_main

NEEDS_FIGURES = True


def check_source_map(graded: Graded) -> str:
    """The public check, and by the course's own map whether each name is right."""
    accepted = source_map.accepted_answers()

    def is_right(key: str, name: str) -> bool:
        return source_map.names_one_of(name, accepted[key])

    return lesson08.check_source_map(graded, is_right)


def check_live(graded: Graded) -> str:
    """The student's choice on figures that the grader has measured, then the race by that choice.

    The race is only for a choice that is right: what it measures then is worth a machine's time.
    """
    ask = graded.ask(COST_CELL)
    ask.call(CHOOSE, [], 1.0, 1.0)  # measuring takes a while: not for a function that cannot answer
    try:
        figures = graded.figures()
    except FiguresError as error:
        raise Rejected(str(error), "not_measured") from error
    for baseline_ms, budget_gb in figures.cases(graded.rng):
        got = as_choice(ask.call(CHOOSE, figures.methods, baseline_ms, budget_gb))
        expected = cost_model.choose(figures.methods, baseline_ms, budget_gb)
        if got[0] != expected[0] or not is_close(got[1], expected[1]):
            raise Rejected(
                f"on the methods measured on {figures.device}, {CHOOSE} does not make the choice"
                " that the cost model makes",
                hint="hint-choice",
            )
    name, speedup = figures.best()
    told = f"measured on {figures.device}: chooses {name}, predicted speedup {speedup:.2f}"
    decision = race.require_speedup(graded.student, figures, graded.rng)
    return Passed.with_values(f"{told}; {decision.reason}", decision.values)


CHECKS: dict[str, Callable[[Graded], str]] = {
    "main": check_main,
    "boundary": check_boundary,
    "source_map": check_source_map,
    "live": check_live,
}
