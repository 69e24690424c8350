"""
what: the test cells stand before the answers
source: stock 09g
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    tests = [cells[name] for name in ("main", "boundary", "source_map", "live")]
    notebook.cells = tests + [cell for cell in notebook.cells if cell not in tests]
