"""`python -m autograder.attacks.bare --json OUT`: the corpus on a grader that has no bubblewrap.

What do process limits alone stop? The whole grader runs in a sandbox around it, for the sake of the
machine, in which no further sandbox can be made: its own workers have the limits only. Attacks that
are known to need bubblewrap get a grader each, since some of them end the grader.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autograder.attacks import compare
from autograder.attacks.corpus import Attack, load
from autograder.attacks.run import Row, run_class
from autograder.sandbox.session import find_isolation, isolation_name

NOT_TRIED = {"code/bombs_with_forks": "root's processes are not limited, and nothing would stop it"}
TOGETHER = "code/passes_answers_on"  # two friends, who must be in one class
TOTAL_S = 1800
KILLED = "the grader was killed"
NEXT_HARMED = "the next student has no or other marks"


def main(argv: Sequence[str] | None = None) -> int:
    """Write what each attack got; takes some five minutes on two cores."""
    parser = argparse.ArgumentParser(prog="python -m autograder.attacks.bare")
    parser.add_argument("--json", type=Path, metavar="OUT", help="the ledger to write")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of the attacks' names")
    parser.add_argument("--inside", nargs="+", help="(used inside the sandbox)")
    options = parser.parse_args(argv)
    if options.inside:
        return print_rows([a for a in load() if a.id in options.inside])
    if options.json is None:
        parser.error("--json is missing")
    if find_isolation() == "rlimits":
        print("error: a grader without a sandbox is attacked inside bubblewrap only")
        return 2
    attacks = [a for a in load() if any(p in a.id for p in options.only) and a.id not in NOT_TRIED]
    if not attacks:
        parser.error(f"no attack has {' or '.join(options.only)} in its name")
    rows = [row for group in groups(attacks) for row in run_group(group)]
    report = {
        **{k: v for k, v in compare.about().items() if k != "stock_cell_timeout_s"},
        "command": f"python -m autograder.attacks.bare --json {options.json}",
        "isolation": rows[0]["isolation"],
        "rows": sorted(rows, key=lambda row: [a.id for a in attacks].index(row["id"])),
    }
    text = json.dumps(report, indent=1, ensure_ascii=False)
    options.json.write_text(f"{text}\n", encoding="utf-8")
    return 0


def groups(attacks: list[Attack]) -> Iterator[list[Attack]]:
    """Those that the limits should stop in one class, and a class for each other one."""
    yield [attack for attack in attacks if not attack.needs]
    yield [attack for attack in attacks if attack.id.startswith(TOGETHER)]
    yield from ([a] for a in attacks if a.needs and not a.id.startswith(TOGETHER))


def run_group(group: list[Attack]) -> Iterator[dict[str, Any]]:
    """One grader for these attacks; those of which it never spoke have killed it."""
    if not group:
        return
    names = [attack.id for attack in group]
    with tempfile.TemporaryDirectory(prefix="specdec-bare-") as folder:
        (Path(folder) / "home").mkdir()
        command = compare.outer(Path(folder), "autograder.attacks.bare", "--inside", *names)
        said = rows_said(command, TOTAL_S)
    found = {one["row"]["id"]: one for one in said}
    honest = [one["row"] for one in said if one["row"]["id"].startswith("honest after")]
    level = said[0]["isolation"] if said else "rlimits"
    for attack in group:
        got = found.get(attack.id, {"row": asdict(killed(attack)), "ok": False})
        if attack.needs and not any(one["got"] == one["expected"] for one in honest):
            got["row"]["problems"].append(NEXT_HARMED)
        row = as_result(attack, got["row"], got["ok"], level)
        print(f"{attack.id:44} {row['got']} {row['problems']}", file=sys.stderr, flush=True)
        yield row


def rows_said(command: list[str], timeout_s: float) -> list[dict[str, Any]]:
    """The rows that a grader printed before it ended or was ended; a line cut off is none."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, timeout=timeout_s)
        out.seek(0)
        lines = [line for line in out if line.startswith('{"row"') and line.endswith("}\n")]
    return [json.loads(line) for line in lines]


def killed(attack: Attack) -> Row:
    """The line of an attack after which the grader said nothing any more."""
    return Row(attack.id, attack.what, "", "0 points: no verdict", [KILLED])


def as_result(attack: Attack, row: dict[str, Any], is_ok: bool, level: str) -> dict[str, Any]:
    """What an attack got without bubblewrap."""
    return {
        "id": attack.id,
        "what": attack.what,
        "needs": attack.needs,
        "isolation": level,
        "got": row["got"],
        "problems": row["problems"],
        "ok": is_ok and not row["problems"],
    }


def print_rows(attacks: list[Attack]) -> int:
    """Inside the sandbox: a line of JSON for each attack, as soon as it is judged."""
    level = isolation_name(find_isolation())
    folder = Path(tempfile.mkdtemp(dir=compare.INSIDE))
    for row in run_class(attacks, folder):
        print(json.dumps({"row": asdict(row), "ok": row.is_ok, "isolation": level}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
