"""
what: a numpy.py beside the notebook, which stock nbgrader puts first on the path
source: stock 20a
"""

from pathlib import Path

FAKE = """
class testing:
    assert_allclose = staticmethod(lambda *args, **options: None)
def __getattr__(name): return lambda *args, **options: True
"""


def attack(folder: Path) -> None:
    for name in ("numpy.py", "math.py", "json.py", "wire.py", "sitecustomize.py"):
        (folder / name).write_text(FAKE, encoding="utf-8")
