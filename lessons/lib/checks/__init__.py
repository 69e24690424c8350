"""The checks of a unit's exercise: one code path for the notebook and for the grader.

A file here is named like its unit. The notebook runs it on public inputs, in its own process; the
grader runs it on inputs that a secret seed draws, and asks the student's functions in a sandbox.
"""

from lessons.lib.checks.public import public_check, public_checks

__all__ = ["public_check", "public_checks"]
