"""
what: the test cells say that they are not graded
source: stock 09b
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    for name in ("main", "boundary", "source_map", "live"):
        cells[name].metadata.nbgrader.grade = False
        del cells[name].metadata.nbgrader["points"]
