"""
what: texts that take a renderer minutes, so that nobody behind gets feedback
source: own
carries: right
"""

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    cells["q1"].source = "\\begin{a}\n" * 9_000
    cells["q2"].source = "\\begin{a}\n" * 1_900
    notebook.cells += [new_markdown_cell("# \n" * 30_000) for _ in range(100)]
