"""
what: every cell has lost what nbgrader knows it by
source: stock 09h
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    for cell in notebook.cells:
        cell.metadata = {}
