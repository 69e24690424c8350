"""Attacks on the race of Lesson 8: race/*.py, code behind a right answer, beside the real engine.

The header is that of the corpus; `expect` is the verdict on the race alone. On the course's model,
by the wall clock, `python -m autograder selfcheck --race only` tries them; the machine should do
nothing else.
"""

import random
from dataclasses import dataclass
from pathlib import Path

from autograder.attacks.corpus import ANSWER_CELL, HERE, PLAIN, read_header
from autograder.checks import race
from autograder.checks.figures import Figures
from autograder.sandbox.session import Cell, Sandbox
from autograder.speed_decision import Decision

PIN = ("choose_spec_method",)


@dataclass(frozen=True)
class RaceAttack:
    """One file and the verdict that it must get."""

    path: Path
    what: str
    source: str
    expect: str

    @property
    def id(self) -> str:
        return f"race/{self.path.stem}"

    @property
    def cell(self) -> Cell:
        """The right answer with the attack behind it."""
        text = PLAIN["right"] + "\n\n" + self.path.read_text(encoding="utf-8")
        return Cell(ANSWER_CELL, "exercise", text, PIN)


def race_attacks() -> list[RaceAttack]:
    """All of them. Raises CorpusError."""
    found = []
    for path in sorted((HERE / "race").glob("*.py")):
        header = read_header(path)
        found.append(RaceAttack(path, header["what"], header["source"], header["expect"]))
    return found


def try_race(attack: RaceAttack, found: Figures, seed: int) -> Decision:
    """What the race decides on it: some half a minute, by the wall clock."""
    with Sandbox() as box:
        box.cells = [attack.cell]  # they are run beside the engine, not in this box
        return race.race(box, found, random.Random(seed))
