"""How long a lesson is: its prose without addresses, diagrams and code cells."""

from __future__ import annotations

import re

from course.render.document import Document, Markdown

DIAGRAM = re.compile(r"(?ms)^```\{mermaid\}.*?^```$")


def prose(document: Document) -> str:
    """The markdown without diagrams."""
    return DIAGRAM.sub("", "".join(b.text for b in document.blocks if isinstance(b, Markdown)))


def num_words(document: Document) -> int:
    """English words of the prose."""
    text = re.sub(r"\]\([^)]*\)", "]", prose(document))
    return len(re.findall(r"[A-Za-z0-9][\w.'’–-]*", text))


def num_han(document: Document) -> int:
    """Chinese characters of the prose."""
    return len(re.findall(r"[\u4e00-\u9fff]", prose(document)))
