"""`python -m lessons.lib`: see cli.py."""

import sys

from lessons.lib.cli import main

sys.exit(main())
