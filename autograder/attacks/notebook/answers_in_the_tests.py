"""
what: the test cells say that they are the student's own to write
source: stock 09c
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    for name in ("main", "boundary", "source_map", "live"):
        cells[name].metadata.nbgrader.solution = True
        cells[name].metadata.nbgrader.locked = False
        cells[name].source = "pass"
