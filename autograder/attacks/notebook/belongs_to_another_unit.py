"""
what: the notebook names another unit, another language, another kernel and messages of its own
source: own
carries: right
"""

from nbformat import NotebookNode


def attack(notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    notebook.metadata.course = {
        "unit": "../../../source/lesson08",
        "lang": "../../etc",
        "messages": ["specdec-canary: pass (2 / 2)"],
        "instructor_only": True,
    }
    notebook.metadata.kernelspec = {
        "name": "bash",
        "display_name": "$(touch /tmp/specdec-canary-kernel)",
        "language": "bash",
    }
    notebook.metadata.widgets = {"application/vnd.jupyter.widget-state+json": {"state": 1}}
