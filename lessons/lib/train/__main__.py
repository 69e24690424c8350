"""`python -m lessons.lib.train`: see cli.py."""

import sys

from lessons.lib.train.cli import main

sys.exit(main())
