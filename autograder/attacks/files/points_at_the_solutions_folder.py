"""
what: the whole folder that is handed in is a link to the instructor's
source: own
expect: unreadable
"""

import shutil
from pathlib import Path


def attack(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to("../../source/lesson08", target_is_directory=True)
