"""
what: locked test cells are rewritten to pass, and worth a thousand points
source: stock 08
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    for cell in notebook.cells:
        if cell.metadata.nbgrader.grade:
            cell.metadata.nbgrader.points = 1000
            if cell.cell_type == "code":
                cell.source = "2.0"
