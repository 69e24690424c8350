"""`python -m autograder selfcheck [--race no] [--json]`: can the grader here be trusted?

Judges every wrong fill-in, every right variant and every attack that the course knows, and says
where the outcome is not the one expected. Run it once on each machine that grades. No classroom is
touched. Only the attacks on the race of Lesson 8, which come last, run the model and look at the
clock, so that a busy machine may decide nothing on them.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from autograder.attacks.arena import FIGURES, LIMITS
from autograder.attacks.corpus import Attack, load
from autograder.attacks.race_attacks import race_attacks, try_race
from autograder.attacks.run import Row, run_class
from autograder.attacks.unit_attacks import UnitAttack, try_attack, unit_attacks
from autograder.checks import figures, race
from autograder.fill_ins import FillIn, describe, fill_ins, judged
from autograder.judge import slow_checks, units
from autograder.sandbox.launcher import INSTALL_HINT
from autograder.sandbox.session import find_isolation, isolation_name

SEEDS = (1, 2, 3)
NOT_RUN = "not run"
UNDECIDED = ("inconclusive", "not_measured")


def main(argv: list[str]) -> int:
    """Print a line for each as it comes, then what is not as it should be; 1 if anything is not."""
    parser = argparse.ArgumentParser(prog="python -m autograder selfcheck")
    parser.add_argument("--json", action="store_true", help="print JSON; progress on stderr")
    parser.add_argument(
        "--race", choices=("yes", "no", "only"), default="yes", help="attacks on Lesson 8's race"
    )
    options = parser.parse_args(argv)
    isolation = find_isolation()
    progress = sys.stderr if options.json else sys.stdout
    rows = []
    for row in chosen_rows(isolation != "rlimits", options.race):
        rows.append(row)
        print(as_line(row), file=progress, flush=True)
    print(f"\n{summary(rows, isolation)}", file=progress)
    if options.json:
        print(as_json(rows, isolation_name(isolation)))
    return int(any(is_wrong(row) for row in rows))


def chosen_rows(has_bubblewrap: bool, races: str) -> Iterator[Row]:
    """What is to be tried: with the races (yes), without them (no), or only them."""
    if races != "only":
        yield from quick_rows(has_bubblewrap)
    if races != "no":
        yield from race_rows()


def quick_rows(has_bubblewrap: bool) -> Iterator[Row]:
    """Every unit's fill-ins and attacks, since they take milliseconds; then the corpus."""
    for unit in units():
        yield from map(fill_in_row, fill_ins(unit))
        yield from map(unit_attack_row, unit_attacks(unit))
    attacks = load()
    # An attack that only bubblewrap stops is not tried on somebody's machine without it.
    yield from (not_run(a) for a in attacks if a.needs and not has_bubblewrap)
    able = [attack for attack in attacks if has_bubblewrap or not attack.needs]
    with tempfile.TemporaryDirectory(prefix="specdec-selfcheck-") as folder:
        yield from run_class(able, Path(folder))


def fill_in_row(fill_in: FillIn) -> Row:
    """A fill-in with the rest right, over several secret seeds."""
    unit = fill_in.unit
    verdicts = judged(unit, fill_in.text, SEEDS, LIMITS, lambda: FIGURES, slow_checks(unit))
    got = " or ".join(sorted(set(map(describe, verdicts))))
    return Row(f"{unit} {fill_in.name}", fill_in.what, fill_in.expected, got)


def unit_attack_row(attack: UnitAttack) -> Row:
    """An attack on one unit's checks; ok means that it got exactly what it must."""
    skip = slow_checks(attack.unit)
    problems = try_attack(attack, SEEDS[0], LIMITS, lambda: FIGURES, skip)
    return Row(f"attack {attack.id}", attack.what, "stopped", "stopped", problems)


def race_rows() -> Iterator[Row]:
    """The attacks on the race, where there is one: where a method is predicted to reach the bar."""
    found = figures.measured()
    for attack in race_attacks():
        row = Row(attack.id, attack.what, attack.expect, NOT_RUN)
        if found.can_race and found.best()[1] > race.BAR:
            decision = try_race(attack, found, SEEDS[0])
            row.got = decision.verdict
            row.problems = [] if row.got == attack.expect else [decision.reason]
        yield row


def not_run(attack: Attack) -> Row:
    """The line of an attack that this machine's grader would not stop."""
    return Row(attack.id, attack.what, "bubblewrap", NOT_RUN, needs=attack.needs)


def is_undecided(row: Row) -> bool:
    """Whether it says nothing: it was not run, or its race was too noisy."""
    return row.got in (NOT_RUN, *UNDECIDED)


def is_wrong(row: Row) -> bool:
    """Whether an outcome is not as expected; what is undecided has none."""
    return not is_undecided(row) and not row.is_ok


def as_line(row: Row) -> str:
    """One line of the table; a star stands where only bubblewrap protects."""
    state = "WRONG" if is_wrong(row) else "-" if is_undecided(row) else "ok"
    star = "*" if row.needs else " "
    got = f"{row.got}, not {row.expected}" if is_wrong(row) else row.got
    problems = "".join(f"\n      {problem}" for problem in row.problems)
    return f"{state:5} {star} {row.id:42} {got:44} {row.what}{problems}"


def summary(rows: list[Row], isolation: str) -> str:
    """The counts, the isolation level and what it leaves open."""
    wrong = [row.id for row in rows if is_wrong(row)]
    left_out = [row for row in rows if is_undecided(row)]
    num = len(rows) - len(left_out)
    lines = [f"{num - len(wrong)} of {num} as expected"]
    lines += [f"WRONG: {', '.join(wrong)}"] if wrong else []
    lines.append(f"isolation: {isolation_name(isolation)}; * = only bubblewrap protects")
    if unsafe := [row for row in left_out if row.needs]:
        lines.append(f"{len(unsafe)} attacks were not run: they would succeed here; {INSTALL_HINT}")
    if races := [row for row in left_out if not row.needs]:
        lines.append(f"{len(races)} races decided nothing: on a quiet machine, --race only")
    return "\n".join(lines)


def as_json(rows: list[Row], isolation: str) -> str:
    """The table as one JSON object."""
    table = [{**asdict(row), "ok": None if is_undecided(row) else row.is_ok} for row in rows]
    return json.dumps({"units": units(), "isolation": isolation, "rows": table}, ensure_ascii=False)
