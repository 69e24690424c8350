"""The file that was handed in: is it a notebook, and small enough to be taken apart?"""

import json
from typing import Any

MAX_SUBMISSION_BYTES = 100 << 20
MAX_PARTS = 1_000_000  # each bracket of JSON may become an object in the grader's memory


class Unreadable(ValueError):
    """The file is no notebook; the message tells the student what to do."""


def read(submitted: str | bytes) -> dict[str, Any]:
    """Parse a submission far enough that it has a list of cells. Raises Unreadable."""
    if len(submitted) > MAX_SUBMISSION_BYTES:
        raise Unreadable("the file is over 100 MB: clear all outputs, save and submit it again")
    try:
        text = submitted.decode("utf-8-sig") if isinstance(submitted, bytes) else submitted
    except UnicodeDecodeError:
        raise Unreadable(
            "the file is not UTF-8 text: open it in JupyterLab, save it and submit it again"
        ) from None
    if text.count("{") + text.count("[") > MAX_PARTS:
        raise Unreadable("the file has over a million parts: clear all outputs, save and submit it")
    try:
        notebook = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        raise Unreadable(
            "the file is not a notebook (not JSON): submit the .ipynb that JupyterLab saves"
        ) from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        version = notebook.get("nbformat") if isinstance(notebook, dict) else None
        old = f"an old one (format {version})" if version in (1, 2, 3) else "not a notebook"
        raise Unreadable(
            f"the file is {old}: open the lesson's notebook in JupyterLab, save and submit that"
        )
    return notebook
