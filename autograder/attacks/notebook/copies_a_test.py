"""
what: a test cell is there twice, the accident that stops a whole class in stock nbgrader
source: stock 09a, stock 09f
carries: right
"""

import copy

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    twin = copy.deepcopy(cells["main"])
    twin.id = "twin"
    notebook.cells.append(twin)
