"""
what: test cells come with the outputs of a full mark, as if they had been run
source: own
"""

from nbformat import NotebookNode
from nbformat.v4 import new_output


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    for name in ("main", "boundary", "source_map", "live"):
        data = {"text/plain": "2", "text/markdown": "**pass** (2 / 2): forged specdec-canary"}
        cells[name].outputs = [new_output("execute_result", data, execution_count=1)]
        cells[name].execution_count = 1
