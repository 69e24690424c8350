"""`python -m autograder.attacks.compare --json OUT`: the corpus on stock nbgrader and on ours.

Stock nbgrader runs a student's code as the grader's own user, so here it runs in a bubblewrap
sandbox: no network, a read-only system, one copy of the course for each attack. Each copy has a
victim who is graded already, the attacker, and an honest student who is graded next.

A run that was stopped goes on from what it has kept in OUT.part. With --only, the rows of all other
attacks stay as they are in OUT.
"""

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.attacks import stock_course
from autograder.attacks.arena import GRADES, VICTIM
from autograder.attacks.corpus import (
    ANSWER_CELL,
    CHECKS,
    PLAIN,
    UNIT,
    Attack,
    apply_to_folder,
    apply_to_notebook,
    load,
)
from autograder.attacks.run import Row, run_class
from autograder.attacks.traces import CANARY
from autograder.kept import Kept
from autograder.sandbox.launcher import REPO
from autograder.sandbox.session import find_isolation, isolation_name

ATTACKER, HONEST = "mmm-attacker", "zzz-honest"
PACKAGES = ("nbgrader", "nbconvert", "nbclient", "ipykernel", "ipython", "numpy")
NOT_ON_STOCK = {
    "code/bombs_with_forks": "nothing there would stop it",
    "code/hoards_in_many_processes": "would take this machine's memory",
    "files/brings_a_bottomless_file": "would be copied to the disk",
    "files/is_never_read_to_the_end": "reading a pipe has no end",
    "files/is_a_memory_bomb": "would take this machine's memory",
    "notebook/is_slow_to_render": "acts on feedback, which is not part of this run",
    "code/leaves_the_sandbox": "there is none to leave",
    "code/passes_answers_on_2": "needs the first friend in the same class",
}
INSIDE = Path("/tmp/course")
MEMORY_BYTES = 8 << 30
TOTAL_S = 300

Marks = dict[str, tuple[float | None, float | None, bool]]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the comparison. Takes some ten minutes on two cores."""
    parser = argparse.ArgumentParser(prog="python -m autograder.attacks.compare")
    parser.add_argument("--json", type=Path, required=True, metavar="OUT")
    parser.add_argument("--only", nargs="+", help="parts of the attacks' names")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(argv)
    if find_isolation() == "rlimits":
        print("error: stock nbgrader is attacked inside bubblewrap only", file=sys.stderr)
        return 2
    attacks = [a for a in load() if any(part in a.id for part in options.only or [""])]
    kept = Kept(options.json)
    report = compare(attacks, options.jobs, kept)
    if options.only and options.json.exists():
        report = joined(json.loads(options.json.read_text(encoding="utf-8")), report)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report, indent=1, ensure_ascii=False)
    options.json.write_text(f"{text}\n", encoding="utf-8")
    kept.done()
    return 0


def compare(attacks: list[Attack], num_jobs: int, kept: Kept) -> dict[str, Any]:
    """Both graders on every attack, with what is needed to read the figures."""
    with tempfile.TemporaryDirectory(prefix="specdec-compare-") as folder:
        stock = Stock(Path(folder) / "stock")
        plain = {kind: stock.control(kind) for kind in ("wrong", "right")}
        with ThreadPoolExecutor(num_jobs) as threads:
            tried = threads.map(lambda attack: try_once(kept, stock, attack), attacks)
            found = dict(zip(attacks, tried, strict=True))
        ours = {row.id: row for row in run_class(attacks, made(Path(folder) / "ours"))}
    rows = [as_row(attack, ours[attack.id], found[attack]) for attack in attacks]
    return {**about(), "plain_on_stock": plain, "rows": rows}


def try_once(kept: Kept, stock: "Stock", attack: Attack) -> dict[str, Any] | None:
    """An attack on stock nbgrader, unless it was made with this very text before."""
    return kept.or_now(f"{attack.id}\n{attack.text}", lambda: stock.attack(attack))


def joined(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The old report with the new one's rows in their places, and a note that says which."""
    rows = {row["id"]: row for row in old["rows"] + new["rows"]}
    again = ", ".join(row["id"] for row in new["rows"])
    note = f"{again}: measured on {new['date']} at commit {new['commit'][:12]}."
    order = [attack.id for attack in load()]
    return old | {
        "note": f"{old.get('note', '')} {note}".strip(),
        "rows": [rows[name] for name in order if name in rows],
    }


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def about() -> dict[str, Any]:
    """Versions, machine and command."""
    git = ["git", "-C", str(REPO), "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"
    return {
        "command": "python -m autograder.attacks.compare --json course/results/grader_attacks.json",
        "date": datetime.date.today().isoformat(),
        "commit": commit,
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "isolation": isolation_name(find_isolation()),
        "stock_cell_timeout_s": stock_course.CELL_SECONDS,
    }


class Stock:
    """The plain course: a template with the victim graded, and a copy of it for each attack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.template = folder / "template"
        self.release = stock_course.build(self.template)
        self.hand_in(self.template, VICTIM, honest_notebook(self.release))
        (self.template / "home").mkdir()
        confined(self.template)
        self.before = marks_by_student(self.template)[VICTIM]

    def hand_in(self, course: Path, student: str, notebook: NotebookNode) -> Path:
        folder = course / "submitted" / student / UNIT
        folder.mkdir(parents=True)
        (folder / f"{UNIT}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
        return folder

    def control(self, kind: str) -> float:
        """What a plain answer earns without any attack."""
        notebook = copy_of(self.release)
        cell_of(notebook, ANSWER_CELL).source = PLAIN[kind]
        with self.copy(f"plain-{kind}") as course:
            self.hand_in(course, ATTACKER, notebook)
            confined(course)
            return total(marks_by_student(course).get(ATTACKER, {}))

    def attack(self, attack: Attack) -> dict[str, Any] | None:
        """What an attack gets and does; None where it is not tried."""
        if attack.id in NOT_ON_STOCK:
            return None
        notebook = copy_of(self.release)
        apply_to_notebook(attack, notebook)
        with self.copy(attack.id.replace("/", "-")) as course:
            apply_to_folder(attack, self.hand_in(course, ATTACKER, notebook))
            self.hand_in(course, HONEST, honest_notebook(self.release))
            files = victims_files(course)
            said = confined(course)
            found = self.findings(course, said, files)
        print(f"{attack.id:44} {found}", file=sys.stderr, flush=True)
        return found

    @contextlib.contextmanager
    def copy(self, name: str) -> Iterator[Path]:
        course = self.folder / name
        shutil.copytree(self.template, course, symlinks=True)
        try:
            yield course
        finally:
            shutil.rmtree(course, ignore_errors=True)

    def findings(self, course: Path, said: dict, files: dict[str, bytes]) -> dict[str, Any]:
        """What the gradebook and the folders hold after the run."""
        marks = marks_by_student(course)
        mine, honest = marks.get(ATTACKER, {}), marks.get(HONEST, {})
        return {
            "points": total(mine),
            "waits_for_person": any(mine[name][2] for name in CHECKS if name in mine),
            "victim_harmed": marks.get(VICTIM) != self.before or victims_files(course) != files,
            "honest_points": total(honest) if honest else None,
            "hidden_tests_shown": shows_hidden(course),
            "files_left": any(CANARY in path.name for path in course.rglob("*")),
            **said,
        }


def copy_of(notebook: NotebookNode) -> NotebookNode:
    return nbformat.from_dict(json.loads(json.dumps(notebook)))


def cell_of(notebook: NotebookNode, name: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.id == name)


def honest_notebook(release: NotebookNode) -> NotebookNode:
    """Right code; the source map stays empty, as in the attacks."""
    notebook = copy_of(release)
    cell_of(notebook, ANSWER_CELL).source = PLAIN["right"]
    return notebook


def outer(course: Path, module: str, *arguments: str) -> list[str]:
    """The command that runs a module in a sandbox around all of it, where it may write `course`."""
    bind = ["--ro-bind", "/", "/", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]
    bind += ["--ro-bind", str(REPO), str(REPO), "--ro-bind", sys.prefix, sys.prefix]
    bind += ["--bind", str(course), str(INSIDE), "--proc", "/proc", "--dev", "/dev"]
    command = ["prlimit", f"--as={MEMORY_BYTES}", "--core=0"]
    command += ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    command += ["--unshare-user", "--disable-userns", *bind]
    command += ["--chdir", str(INSIDE), "--clearenv"]
    path = f"{sys.prefix}/bin:/usr/bin:/bin"
    env = {"HOME": f"{INSIDE}/home", "PATH": path, "PYTHONPATH": str(REPO), "LANG": "C.UTF-8"}
    for name, value in {**env, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}.items():
        command += ["--setenv", name, value]
    return [*command, "--", sys.executable, "-B", "-m", module, *arguments]


def confined(course: Path) -> dict[str, Any]:
    """Run stock nbgrader on a course inside bubblewrap; what its runner said, if it could."""
    command = outer(course, "autograder.attacks.stock_grader", UNIT)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOTAL_S)
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return {"exit": None, "left_process": False, "called_home": False}


def marks_by_student(course: Path) -> dict[str, Marks]:
    """The gradebook's rows; a hostile one that cannot be read has none."""
    found: dict[str, Marks] = {}
    try:
        with contextlib.closing(sqlite3.connect(course / "gradebook.db")) as database:
            for who, cell, auto, manual, needs in database.execute(GRADES):
                found.setdefault(who, {})[cell] = (auto, manual, bool(needs))
    except sqlite3.Error:
        pass
    return found


def total(marks: Marks) -> float:
    """The points of the code checks, a person's mark first, as nbgrader counts them."""
    chosen = [marks[name] for name in CHECKS if name in marks]
    return round(sum((auto if hand is None else hand) or 0.0 for auto, hand, _ in chosen), 2)


def victims_files(course: Path) -> dict[str, bytes]:
    """What the victim handed in and got back."""
    paths = [p for step in ("submitted", "autograded") for p in (course / step / VICTIM).rglob("*")]
    return {str(path.relative_to(course)): path.read_bytes() for path in paths if path.is_file()}


def shows_hidden(course: Path) -> bool:
    """Whether a hidden test or an answer stands in the attacker's outputs."""
    path = course / "autograded" / ATTACKER / UNIT / f"{UNIT}.ipynb"
    if not path.is_file() or path.stat().st_size > 50 << 20:
        return False
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = json.dumps([cell.get("outputs", []) for cell in cells])
    return "BEGIN HIDDEN TESTS" in outputs or "BEGIN SOLUTION" in outputs


def as_row(attack: Attack, ours: Row, stock: dict | None) -> dict[str, Any]:
    """One attack on both graders: what was measured, no opinion."""
    return {
        "id": attack.id,
        "what": attack.what,
        "source": attack.source,
        "carries": attack.carries,
        "ours": {"got": ours.got, "problems": ours.problems, "ok": ours.is_ok},
        "stock": stock,
    }


if __name__ == "__main__":
    sys.exit(main())
