"""Attacks on the race of Lesson 8: race/*.py, code behind a right answer, beside the real engine.

The header is that of the corpus; `expect` is the verdict on the race alone. This runs them all on
the course's model by the wall clock, so on a machine that does nothing else:

python -m autograder.attacks.race_attacks
"""

import random
import sys
from dataclasses import dataclass
from pathlib import Path

from autograder.attacks.corpus import ANSWER_CELL, HERE, PLAIN, read_header
from autograder.checks import figures, race
from autograder.sandbox.session import Cell, Sandbox

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


def main() -> int:
    """One line an attack; 1 if a verdict is not the one that it must get."""
    found, num_wrong = figures.measured(), 0
    for attack in race_attacks():
        with Sandbox() as box:
            box.cells = [attack.cell]  # they are run beside the engine, not in this box
            decision = race.race(box, found, random.Random(1))
        is_right = decision.verdict == attack.expect
        num_wrong += not is_right
        state = "ok" if is_right else "WRONG"
        print(f"{state:5} {attack.id:38} {decision.verdict}: {decision.reason}", flush=True)
    return int(num_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
