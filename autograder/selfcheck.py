"""`python -m autograder selfcheck [--json]`: is this grader, on this machine, to be trusted?

Judges every wrong fill-in, every right variant and every attack that the course knows, and says
where the outcome is not the one expected. Run it once on each machine that grades. Nothing is
measured, checks that run the model are left out, and no classroom is touched.
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
from autograder.attacks.run import Row, run_class
from autograder.attacks.unit_attacks import UnitAttack, try_attack, unit_attacks
from autograder.fill_ins import FillIn, describe, fill_ins, judged
from autograder.judge import slow_checks, units
from autograder.sandbox.launcher import INSTALL_HINT
from autograder.sandbox.session import find_isolation, isolation_name

SEEDS = (1, 2, 3)
NOT_RUN = "not run"


def main(argv: list[str]) -> int:
    """Print a line for each as it comes, then what is not as it should be; 1 if anything is not."""
    parser = argparse.ArgumentParser(prog="python -m autograder selfcheck")
    parser.add_argument("--json", action="store_true", help="print JSON; progress on stderr")
    options = parser.parse_args(argv)
    isolation = find_isolation()
    progress = sys.stderr if options.json else sys.stdout
    rows = []
    for row in all_rows(isolation != "rlimits"):
        rows.append(row)
        print(as_line(row), file=progress, flush=True)
    print(f"\n{summary(rows, isolation)}", file=progress)
    if options.json:
        print(as_json(rows, isolation_name(isolation)))
    return int(any(is_wrong(row) for row in rows))


def all_rows(has_bubblewrap: bool) -> Iterator[Row]:
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


def not_run(attack: Attack) -> Row:
    """The line of an attack that this machine's grader would not stop."""
    return Row(attack.id, attack.what, "bubblewrap", NOT_RUN, needs=attack.needs)


def is_wrong(row: Row) -> bool:
    """Whether an outcome is not as expected; what was not run has none."""
    return row.got != NOT_RUN and not row.is_ok


def as_line(row: Row) -> str:
    """One line of the table; a star stands where only bubblewrap protects."""
    state = "WRONG" if is_wrong(row) else "-" if row.got == NOT_RUN else "ok"
    star = "*" if row.needs else " "
    got = row.got if row.is_ok or row.got == NOT_RUN else f"{row.got}, not {row.expected}"
    problems = "".join(f"\n      {problem}" for problem in row.problems)
    return f"{state:5} {star} {row.id:42} {got:44} {row.what}{problems}"


def summary(rows: list[Row], isolation: str) -> str:
    """The counts, the isolation level and what it leaves open."""
    wrong = [row.id for row in rows if is_wrong(row)]
    left_out = sum(row.got == NOT_RUN for row in rows)
    lines = [f"{len(rows) - left_out - len(wrong)} of {len(rows) - left_out} as expected"]
    lines += [f"WRONG: {', '.join(wrong)}"] if wrong else []
    lines.append(f"isolation: {isolation_name(isolation)}; * = only bubblewrap protects")
    if left_out:
        lines.append(f"{left_out} attacks were not run: they would succeed here; {INSTALL_HINT}")
    return "\n".join(lines)


def as_json(rows: list[Row], isolation: str) -> str:
    """The table as one JSON object."""
    table = [{**asdict(row), "ok": None if row.got == NOT_RUN else row.is_ok} for row in rows]
    return json.dumps({"units": units(), "isolation": isolation, "rows": table}, ensure_ascii=False)
