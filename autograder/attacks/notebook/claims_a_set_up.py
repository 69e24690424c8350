"""
what: a cell of the student's says that it is the lesson's set-up and imports the whole course
source: own
"""

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

GREEDY = """
import kernels, lessons, autograder
from lessons.lib.checks.cost_model import expected_tokens as expected_tokens_per_round
"""


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    notebook.cells.insert(0, new_code_cell(GREEDY, metadata={"course_role": "setup"}))
    cells["setup"].source = GREEDY
