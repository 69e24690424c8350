"""Run attacks through the classroom's own autograde, and say what each of them got and changed."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from autograder import assignment, submissions
from autograder.attacks.arena import Arena, short_judging
from autograder.attacks.corpus import CHECKS, FOLDERS, UNIT, Attack
from autograder.attacks.traces import CANARY
from autograder.seed import grader_seed
from autograder.status import Status

UNREADABLE = "unreadable"
FULL_CODE = {"main": 2.0, "boundary": 1.0, "source_map": 1.0, "live": 0.0}
DRAWN = re.compile(r"\d\.\d{9,}")  # what only a hidden input looks like


@dataclass
class Row:
    """One line of the table: what had to come out, what came out, and what was wrong."""

    id: str
    what: str
    expected: str
    got: str
    problems: list[str] = field(default_factory=list)
    needs: str = ""

    @property
    def is_ok(self) -> bool:
        """`fail|invalid` is met by either."""
        expected, got = self.expected.split(), self.got.split()
        fits = [word in words.split("|") for words, word in zip(expected, got, strict=False)]
        return len(expected) == len(got) and all(fits) and not self.problems


def run_class(attacks: Sequence[Attack], folder: Path, has_feedback: bool = False) -> Iterator[Row]:
    """Grade a victim, every attacker and, after each folder of the corpus, an honest student.

    `folder` is empty and ours. `has_feedback`: also write each attacker's feedback and search it.
    """
    arena = Arena(folder)
    try:
        with short_judging():
            arena.grade_victim()
            for kind in FOLDERS:
                mine = [attack for attack in attacks if attack.kind == kind]
                for attack in mine:
                    yield attacked(arena, attack, has_feedback)
                if mine:
                    yield honest(arena, f"honest after {kind}/")
    finally:
        arena.close()


def attacked(arena: Arena, attack: Attack, has_feedback: bool) -> Row:
    """Hand in an attack, grade it and look around."""
    student = attack.id.replace("/", "-")
    arena.hand_in(student, attack)
    before = arena.surroundings(student)
    status = arena.grade(student)
    if has_feedback:
        arena.room.api.generate_feedback(UNIT, student)
    row = Row(attack.id, attack.what, expectation(attack), "", needs=attack.needs)
    row.got = outcome(arena, student, status)
    row.problems += changes(before, arena.surroundings(student))
    row.problems += leaks(arena, student, status)
    return row


def honest(arena: Arena, student: str) -> Row:
    """A student who is graded after the attackers and has everything right."""
    name = student.replace(" ", "-").rstrip("/")
    arena.hand_in(name, None)
    status = arena.grade(name)
    row = Row(student, "a right answer, graded next in line", wanted(FULL_CODE, "pass"), "")
    row.got = outcome(arena, name, status)
    if [mark for name, mark in arena.marks(name).items() if name[0] == "q" and not mark[2]]:
        row.problems.append("a written answer does not wait for a person")
    return row


def expectation(attack: Attack) -> str:
    """The verdicts in the checks' order, and the points."""
    if not attack.expect:
        return f"0 points: {UNREADABLE}"
    return f"{attack.points:g} points: {' '.join(attack.expect)}"


def wanted(points: dict[str, float], verdict: str) -> str:
    """The expectation of a submission with one verdict everywhere."""
    return f"{sum(points.values()):g} points: {' '.join([verdict] * len(points))}"


def outcome(arena: Arena, student: str, status: Status) -> str:
    """What the classroom recorded: verdicts from its file, points from the gradebook."""
    marks = arena.marks(student)
    points = sum((auto or 0.0) + (manual or 0.0) for auto, manual, _ in marks.values())
    if status.state != "graded":
        return f"{points:g} points: {status.state}"
    verdicts = {check["id"]: check["verdict"] for check in kept(arena, student)["checks"]}
    return f"{points:g} points: {' '.join(verdicts[name] for name in CHECKS)}"


def kept(arena: Arena, student: str) -> dict[str, Any]:
    """The verdicts file beside the graded notebook."""
    path = arena.room.notebook("autograded", UNIT, student).with_name(submissions.VERDICTS_FILE)
    return json.loads(path.read_text(encoding="utf-8"))


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not as it was, by name."""
    return [
        f"{name}: {difference(before[name], after[name])}"
        for name in before
        if before[name] != after[name]
    ]


def difference(before: Any, after: Any) -> str:
    """The first things that differ between two sets or dictionaries."""
    if isinstance(before, bool):
        return f"{before} became {after}"
    old, new = (dict(x) if isinstance(x, dict) else dict.fromkeys(x) for x in (before, after))
    gone_or_new = old.keys() ^ new.keys()
    changed = {key for key in old.keys() & new.keys() if old[key] != new[key]}
    names = [str(key) for key in gone_or_new | changed]
    return ", ".join(sorted(names)[:3])


def leaks(arena: Arena, student: str, status: Status) -> list[str]:
    """Secrets in what the attacker is going to be shown, and forgeries among it."""
    said = shown_by_grader(arena, student, status)
    page = arena.room.notebook("feedback", UNIT, student).with_suffix(".html")
    written = page.read_text(encoding="utf-8") if page.exists() else ""
    found = [f"{what} is shown" for what, text in secrets(arena).items() if text in said + written]
    if CANARY in said:
        found.append("something of the attacker's own is shown as the grader's")
    if DRAWN.search(said):
        found.append("a hidden input is shown")
    return found


def shown_by_grader(arena: Arena, student: str, status: Status) -> str:
    """The grader's own words in what a student gets back."""
    path = arena.room.notebook("autograded", UNIT, student)
    said = "\n".join(status.messages)
    if path.exists():
        nb = nbformat.read(path, as_version=4)
        cells = [c for c in nb.cells if not c.metadata.get("course", {}).get("instructor_only")]
        verdicts = kept(arena, student)
        said += json.dumps([cell.get("outputs") for cell in cells]) + str(nb.metadata)
        said += "\n".join([check["reason"] for check in verdicts["checks"]])
        said += "\n".join(verdicts["messages"])
    return said


def secrets(arena: Arena) -> dict[str, str]:
    """What no student is shown, by name: the seed and a line of each answer."""
    answers = assignment.read_answers(assignment.answers_path(UNIT, "en"))
    found = {
        f"the answer to {name}": text.strip().splitlines()[0]
        for name, (kind, text) in answers.items()
        if kind == "markdown"
    }
    seed = str(grader_seed(classroom=arena.room.path))
    return found | {"the seed": seed, "the solution": "survival = survival * probability"}
