"""`python -m autograder selfcheck [--json]`: is this grader, on this machine, to be trusted?

Judges every wrong fill-in, every right variant and every attack that the course knows, and says
where the outcome is not the one expected. Run it once on each machine that grades. Nothing is
measured and no classroom is touched.
"""

import argparse
import copy
import functools
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from nbformat import NotebookNode

from autograder.assignment import build_release
from autograder.attacks.arena import FIGURES, LIMITS
from autograder.attacks.corpus import ANSWER_CELL, MAP_CELL, UNIT, Attack, load
from autograder.attacks.run import Row, run_class
from autograder.intake import grade_id
from autograder.judge import cells_to_run, run_checks
from autograder.sandbox.launcher import INSTALL_HINT
from autograder.sandbox.session import Sandbox, find_isolation, isolation_name
from autograder.verdict import Verdict

MUTANTS = Path(__file__).parent / "mutants" / UNIT
CELL_OF = {"cost": ANSWER_CELL, "map": MAP_CELL}
CHECKS_OF = {"cost": ("main", "boundary"), "map": ("source_map",)}
RIGHT = {ANSWER_CELL: "right/cost_horner", MAP_CELL: "right/map_vllm"}
SEEDS = (1, 2, 3)
REJECTED, ACCEPTED = "rejected", "full marks"
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
    """Mutants first, since they take milliseconds; then the attacks."""
    for kind in ("wrong", "right"):
        for path in sorted((MUTANTS / kind).glob("*.py")):
            yield mutant_row(path)
    attacks = load()
    # An attack that only bubblewrap stops is not tried on somebody's machine without it.
    yield from (not_run(a) for a in attacks if a.needs and not has_bubblewrap)
    able = [attack for attack in attacks if has_bubblewrap or not attack.needs]
    with tempfile.TemporaryDirectory(prefix="specdec-selfcheck-") as folder:
        yield from run_class(able, Path(folder))


def mutant_row(path: Path) -> Row:
    """A fill-in with the rest right, over several secret seeds."""
    name = f"{path.parent.name}/{path.stem}"
    expected = REJECTED if path.parent.name == "wrong" else ACCEPTED
    texts = {cell: fill_in(right) for cell, right in RIGHT.items()}
    kind = path.stem.split("_")[0]
    texts[CELL_OF[kind]] = fill_in(name)
    got = {describe([v for v in verdicts if v.id in CHECKS_OF[kind]]) for verdicts in judged(texts)}
    what = fill_in(name).splitlines()[0].removeprefix("# ").split(": ", 1)[-1]
    return Row(name, what, expected, " or ".join(sorted(got)))


def fill_in(name: str) -> str:
    """The text of a file under mutants, such as "right/cost_horner"."""
    return (MUTANTS / f"{name}.py").read_text(encoding="utf-8")


def judged(texts: dict[str, str]) -> Iterator[list[Verdict]]:
    """The verdicts on a notebook filled in so, for each seed, on one start of the worker."""
    release = released()
    notebook = copy.deepcopy(release)
    for cell in notebook.cells:
        cell.source = texts.get(grade_id(cell), cell.source)
    with Sandbox(LIMITS) as box:
        box.run_cells(cells_to_run(notebook, release))
        for seed in SEEDS:
            yield run_checks(box, UNIT, release, seed, lambda: FIGURES)


@functools.cache
def released() -> NotebookNode:
    """The released notebook; nobody changes it."""
    return build_release(UNIT, "en")


def describe(verdicts: list[Verdict]) -> str:
    """Full marks, rejected by at least one of its checks, or something that decides nothing."""
    if all(verdict.verdict == "pass" for verdict in verdicts):
        return ACCEPTED
    bad = [verdict for verdict in verdicts if verdict.verdict in ("fail", "invalid")]
    return REJECTED if bad else "undecided"


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
    return json.dumps({"unit": UNIT, "isolation": isolation, "rows": table}, ensure_ascii=False)
