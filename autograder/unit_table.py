"""`python -m autograder units [UNIT] [--live] [--json]`: does every unit hold what it promises?

One line a unit: how many wrong fill-ins are rejected, right ones accepted and attacks stopped, how
long grading the solution takes here, how long the lesson is, and whether both languages hold the
same cells. Exits with 1 where anything does not hold. `--live` runs the model as well: minutes.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from autograder import selfcheck
from autograder.assignment import answers_path, lesson_path, read_answers
from autograder.attacks.arena import FIGURES
from autograder.attacks.run import Row
from autograder.attacks.unit_attacks import unit_attacks
from autograder.classroom import chosen_units
from autograder.fill_ins import ACCEPTED, describe, fill_ins, judged
from autograder.judge import slow_checks, units
from autograder.report import as_text
from autograder.sandbox.launcher import Limits
from course.render.lint import lint_translation
from course.render.qmd import parse
from course.render.words import num_han, num_words


@dataclass(frozen=True)
class UnitRow:
    """What holds of one unit. Counts are `as expected / all`; `grade_s` is the solution's time."""

    unit: str
    wrong: str
    right: str
    attacks: str
    solution: str
    grade_s: float
    points: float
    words: int
    han: int
    cells_equal: bool
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.problems


def main(argv: list[str]) -> int:
    """The verb `units`."""
    parser = argparse.ArgumentParser(prog="python -m autograder units")
    parser.add_argument("unit", nargs="?", help="such as lesson08; default: all")
    parser.add_argument("--live", action="store_true", help="also the checks that run the model")
    parser.add_argument("--json", action="store_true", help="print JSON; progress on stderr")
    options = parser.parse_args(argv)
    rows = []
    for unit in chosen_units(units(), options.unit, "autograder/checks/"):
        print(f"{unit} …", file=sys.stderr, flush=True)
        rows.append(unit_row(unit, options.live))
    print(json.dumps([asdict(row) for row in rows]) if options.json else as_table(rows))
    return int(not all(row.holds for row in rows))


def unit_row(unit: str, is_live: bool = False) -> UnitRow:
    """Try everything that a unit has."""
    tried = [selfcheck.fill_in_row(item) for item in fill_ins(unit)]
    wrong = [row for row in tried if " wrong/" in row.id]
    right = [row for row in tried if " right/" in row.id]
    attacks = [selfcheck.unit_attack_row(attack) for attack in unit_attacks(unit)]
    problems = [f"{row.id}: {row.got}" for row in tried + attacks if selfcheck.is_wrong(row)]
    english, chinese = (parse(lesson_path(unit, lang)) for lang in ("en", "zh"))
    unequal = lint_translation(english)
    outcome, points, grade_s = grade_solution(unit, is_live)
    if outcome != ACCEPTED:
        problems.append(f"the solution: {outcome}")
    return UnitRow(
        unit=unit,
        wrong=count(wrong),
        right=count(right),
        attacks=count(attacks),
        solution=outcome,
        grade_s=round(grade_s, 1),
        points=points,
        words=num_words(english),
        han=num_han(chinese),
        cells_equal=not unequal,
        problems=(*problems, *map(str, unequal)),
    )


def grade_solution(unit: str, is_live: bool) -> tuple[str, float, float]:
    """How the solution is judged, its code points and the seconds that judging took."""
    answers = read_answers(answers_path(unit, "en"))
    text = next(text for kind, text in answers.values() if kind == "code")
    skip = () if is_live else slow_checks(unit)
    started = time.perf_counter()
    (verdicts,) = judged(unit, text, [selfcheck.SEEDS[0]], Limits(), lambda: FIGURES, skip)
    seconds = time.perf_counter() - started
    return describe(verdicts), sum(verdict.points for verdict in verdicts), seconds


def count(rows: Iterable[Row]) -> str:
    """As expected / all."""
    rows = list(rows)
    return f"{sum(not selfcheck.is_wrong(row) for row in rows)}/{len(rows)}"


def as_table(rows: list[UnitRow]) -> str:
    """A line a unit, then what does not hold."""
    import pandas as pd

    frame = pd.DataFrame([asdict(row) | {"holds": row.holds} for row in rows])
    problems = [f"{row.unit}: {problem}" for row in rows for problem in row.problems]
    return "\n".join([as_text(frame.drop(columns="problems")), *problems])
