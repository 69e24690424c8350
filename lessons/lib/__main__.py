"""`python -m lessons.lib`: see cli.py."""

import sys

import kernels

# A command that measures wants the machine for itself.
if sys.argv[1:2] in (["compare"], ["bench"], ["bench-engine"]):
    kernels.take_the_machine()

from lessons.lib.cli import main  # imports torch, which reads the setting

sys.exit(main())
