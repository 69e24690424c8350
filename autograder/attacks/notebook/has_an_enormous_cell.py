"""
what: the answer is followed by 30 MB of comment in the same cell
source: own
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    cells["acceptance_cost_model"].source += "\n#" + "z" * (30 << 20)
