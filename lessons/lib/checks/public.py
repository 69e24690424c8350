"""What a notebook's check cells call: the unit's own checks on public inputs.

The grader runs the same checks on other inputs. Passing here therefore means much and not all: the
text says so. A failure names the property that does not hold, then where the hints are.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from lessons.lib.checks.asking import Rejected, Submission, inputs_of
from lessons.lib.checks.local import LocalStudent

PUBLIC_SEED = "public"
OTHER_INPUTS = "the graded ones draw other inputs"
HINTS = "Stuck? The three hints below the exercise go from a nudge to the formula."

Check = Callable[[Submission], str]


def public_check(unit: str, check_id: str, namespace: Mapping[str, Any]) -> None:
    """Run one check of a unit on a notebook's functions; `namespace` is globals().

    Prints what holds. Raises AssertionError with what does not.
    """
    checks = checks_of(unit).CHECKS
    number = list(checks).index(check_id) + 1
    try:
        reason = run(unit, check_id, namespace)
    except Rejected as rejected:
        raise AssertionError(f"{check_id}: {rejected.reason}. {HINTS}") from None
    print(f"{check_id}: {reason} (public check {number} of {len(checks)}; {OTHER_INPUTS})")


def public_checks(unit: str, namespace: Mapping[str, Any]) -> int:
    """Run all checks of a unit, print a line each and the count; returns how many hold."""
    checks, num_right = checks_of(unit).CHECKS, 0
    for check_id in checks:
        try:
            print(f"ok    {check_id}: {run(unit, check_id, namespace)}")
            num_right += 1
        except Rejected as rejected:
            print(f"not   {check_id}: {rejected.reason}")
    print(f"public checks {num_right} of {len(checks)}; {OTHER_INPUTS}")
    return num_right


def run(unit: str, check_id: str, namespace: Mapping[str, Any]) -> str:
    """One check on its public inputs: the reason of its pass. Raises Rejected."""
    rng = inputs_of(PUBLIC_SEED, unit, check_id)
    check: Check = checks_of(unit).CHECKS[check_id]
    return check(Submission(LocalStudent(namespace), rng, is_public=True))


def checks_of(unit: str) -> ModuleType:
    """The public checks of a unit: lessons/lib/checks/<unit>.py."""
    return importlib.import_module(f"lessons.lib.checks.{unit}")
