"""
what: the test cells become markdown, which nobody runs
source: stock 09e
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    for name in ("main", "boundary", "source_map", "live"):
        cell = cells[name]
        cell.cell_type = "markdown"
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
