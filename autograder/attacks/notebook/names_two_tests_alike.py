"""
what: two different test cells have the same name
source: stock 09f
carries: right
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    cells["boundary"].metadata.nbgrader.grade_id = "main"
