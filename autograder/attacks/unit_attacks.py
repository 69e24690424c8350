"""Attacks on the checks of one unit: units/<unit>/*.py, each the whole text of an exercise cell.

The header is that of the corpus: `what`, `source` and `expect`, which is here a verdict for each
check of the unit in the order of its CHECKS (`fail|invalid`: either). What an attack may earn is
exactly the points of the checks that it is expected to pass. The corpus itself, which attacks the
grader as a whole, is run on Lesson 8.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from autograder.attacks.corpus import HERE, CorpusError, read_header
from autograder.checks.figures import Figures
from autograder.checks.graded import no_figures
from autograder.fill_ins import judged
from autograder.judge import checks_of
from autograder.sandbox.launcher import Limits


@dataclass(frozen=True)
class UnitAttack:
    """One file: `expect` holds the accepted verdicts of each check, by its label."""

    unit: str
    path: Path
    what: str
    expect: dict[str, tuple[str, ...]]

    @property
    def id(self) -> str:
        return f"{self.unit}/{self.path.stem}"


def unit_attacks(unit: str) -> list[UnitAttack]:
    """All attacks on a unit. Raises CorpusError."""
    return [_read(unit, path) for path in sorted((HERE / "units" / unit).glob("*.py"))]


def _read(unit: str, path: Path) -> UnitAttack:
    header, names = read_header(path), list(checks_of(unit).CHECKS)
    expect = [tuple(word.split("|")) for word in header.get("expect", "").split()]
    if len(expect) != len(names):
        raise CorpusError(f"{path}: expect needs a verdict for each of {', '.join(names)}")
    return UnitAttack(unit, path, header["what"], dict(zip(names, expect, strict=True)))


def try_attack(
    attack: UnitAttack,
    seed: int,
    limits: Limits,
    figures: Callable[[], Figures] = no_figures,
    skip: Collection[str] = (),
) -> list[str]:
    """What came out other than expected, in words; nothing when the attack got what it must."""
    text, problems = attack.path.read_text(encoding="utf-8"), []
    (verdicts,) = judged(attack.unit, text, [seed], limits, figures, skip)
    for verdict in verdicts:
        if verdict.verdict not in attack.expect[verdict.id]:
            problems.append(f"{verdict.id}: {verdict.verdict} ({verdict.reason})")
        if verdict.points and "pass" not in attack.expect[verdict.id]:
            problems.append(f"{verdict.id}: earned {verdict.points:g} points")
    return problems
