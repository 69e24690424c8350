"""What a finished page says about itself: its sections for the search, its ids and its links."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from html.parser import HTMLParser
from typing import Any

HEADINGS = {"h1", "h2", "h3", "h4"}
VOID = {"img", "br", "hr", "input", "link", "meta", "col"}
SILENT = {"script", "style", "svg"}


@dataclass
class Section:
    """A heading's text, the id to jump to ("" for the page's top), and the text below it."""

    title: str
    id: str
    text: str = ""


@dataclass
class PageFacts:
    """Read from a page's body by `read_facts`."""

    sections: list[Section] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)  # href and src values

    def to_json(self) -> dict[str, Any]:
        """Plain data, for the build's manifest."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PageFacts:
        """The inverse of `to_json`."""
        return cls([Section(**section) for section in data["sections"]], data["ids"], data["links"])


def read_facts(title: str, html: str) -> PageFacts:
    """The facts of a page with this title and body."""
    reader = _Reader(title)
    reader.feed(html)
    reader.close()
    for section in reader.facts.sections:
        section.title = _squeeze(section.title)
        section.text = _squeeze(section.text)
    return reader.facts


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


class _Reader(HTMLParser):
    def __init__(self, title: str) -> None:
        super().__init__()
        self.facts = PageFacts([Section(title, "")])
        self.silent = 0
        self.in_heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        if "id" in found:
            self.facts.ids.append(found["id"])
        self.facts.links += [found[key] for key in ("href", "src") if found.get(key)]
        if tag in SILENT or found.get("class") in ("mermaid", "course-pagination") or self.silent:
            self.silent += tag not in VOID
        elif tag in HEADINGS:
            self.facts.sections.append(Section("", found.get("id", "")))
            self.in_heading = True

    def handle_endtag(self, tag: str) -> None:
        if self.silent:
            self.silent -= tag not in VOID
        elif tag in HEADINGS:
            self.in_heading = False
        elif tag in ("p", "li", "td", "th", "div", "pre", "figcaption", "dd", "dt"):
            self.facts.sections[-1].text += " "

    def handle_data(self, data: str) -> None:
        if self.silent:
            return
        section = self.facts.sections[-1]
        if self.in_heading:
            section.title += data
        else:
            section.text += data
