"""`python -m lessons.lib`: see cli.py."""

import sys

import kernels

# Commands that measure want the machine for themselves.
if {"compare", "compare-all", "compare-trees", "bench", "bench-engine"}.intersection(sys.argv[1:2]):
    kernels.take_the_machine()

from lessons.lib.cli import main  # imports torch, which reads the setting

sys.exit(main())
