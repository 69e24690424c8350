"""
what: a tag on the test cells that tells the executor to skip them; no output is full marks in stock
source: stock 09d
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    for name in ("main", "boundary", "source_map", "live"):
        cells[name].metadata.tags = ["skip-execution"]
