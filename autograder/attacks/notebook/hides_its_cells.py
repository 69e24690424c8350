"""
what: every cell claims to be the instructor's, which feedback leaves out
source: own
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    for cell in notebook.cells:
        cell.metadata.course = {"instructor_only": True}
        cell.metadata.course_role = "setup"
