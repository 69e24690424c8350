"""
what: the test cells are gone, which stock nbgrader leaves ungraded for ever
source: stock 10
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    tests = ("main", "boundary", "source_map", "live")
    notebook.cells = [cell for cell in notebook.cells if cell.id not in tests]
