"""
what: a thousand cells of the student's own, each of which takes its time
source: own
carries: right
"""

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    nap = "import time; time.sleep(0.005)"
    notebook.cells += [new_code_cell(nap) for _ in range(1000)]
