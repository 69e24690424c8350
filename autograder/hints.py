"""From a verdict to the place in the lesson that helps.

A hint is the id of a heading that begins with `hint-`, or the label of a check's cell. Both are the
same in every language. In a notebook the heading's id is an anchor before it.
"""

import re

from nbformat import NotebookNode

from autograder.verdict import Verdict

ANCHOR = re.compile(r'^<a id="(hint-[\w-]+)"></a>$', re.MULTILINE)
NOT_MEASURED, WRITTEN = "hint-not-measured", "hint-written"
WORDS = {"en": "what to do", "zh": "怎么办"}


def anchors(notebook: NotebookNode) -> set[str]:
    """Every hint that a released notebook can be entered by."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return {name for text in texts for name in ANCHOR.findall(text)}


def fitting(verdict: Verdict, notebook: NotebookNode) -> str:
    """The hint of a verdict: its own if the lesson has it, else its check's cell; "" for a pass."""
    if verdict.verdict == "pass":
        return ""
    return verdict.hint if verdict.hint in anchors(notebook) else verdict.id


def link(verdict: Verdict, lang: str) -> str:
    """Markdown that leads to the hint within the student's own notebook; "" for a pass."""
    return f" [→ {WORDS[lang]}](#{verdict.hint})" if verdict.hint else ""
