"""Build the site: find, run and assemble the pages, write what has changed, check the links."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from course.render.assemble import assemble
from course.render.document import Document, QmdError
from course.render.execute import execute, outputs_key
from course.render.facts import PageFacts, read_facts
from course.render.lint import solution_path
from course.render.page import THEME, Page, frame, page_of, to_html
from course.render.qmd import parse

EDITIONS = ("student", "instructor")
STATIC = ("site.css", "text.css", "cells.css", "theme.js", "page.js", "search.js", "icon.svg")


@dataclass(frozen=True)
class Source:
    """All that a page is made from, read once and shared by the editions."""

    page: Page
    solution: Document | None
    answers: dict[str, str]  # label of an exercise to its code
    outputs_key: str


def build(root: Path, out: Path, editions: Iterable[str] = EDITIONS, progress: bool = True) -> int:
    """Build the site of each edition; the student's in `out`, the instructor's in `out`-instructor.

    Returns how many pages were written. Raises QmdError on a source that cannot be rendered.
    """
    sources = read_sources(root)
    written = 0
    for edition in editions:
        folder = out if edition == "student" else out.with_name(f"{out.name}-instructor")
        shown = [s for s in sources if edition == "instructor" or not s.page.is_for_instructors]
        written += _Edition(root, folder, edition, shown, progress).build()
    return written


def read_sources(root: Path) -> list[Source]:
    """Every page of the course, course pages first."""
    patterns = ("course/*.qmd", "course/instructor/*.qmd", "lessons/*.qmd")
    found = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    if not found:
        raise ValueError(f"no .qmd in {root}/course or {root}/lessons; run this in the repository")
    site_path = site_settings(root)["site_path"]
    return [_read_source(root, path, site_path) for path in found]


def _read_source(root: Path, path: Path, site_path: str) -> Source:
    page = page_of(parse(path), path.relative_to(root).as_posix(), site_path)
    solved = solution_path(root, page.doc)
    solution = parse(solved) if page.is_lesson and solved.exists() else None
    cells = solution.cells if solution else []
    answers = {cell.label: cell.source for cell in cells if cell.label}
    return Source(page, solution, answers, outputs_key(page.doc, answers, root))


class _Edition:
    """One edition's folder, and the manifest that tells which of its pages are up to date."""

    def __init__(
        self, root: Path, folder: Path, edition: str, sources: list[Source], progress: bool
    ) -> None:
        self.root, self.folder, self.sources, self.progress = root, folder, sources, progress
        self.pages = [source.page for source in sources]
        self.urls = {page.source: page.url for page in self.pages}
        self.site = site_settings(root) | {"instructor": edition == "instructor"}
        self.manifest = folder / ".manifest.json"  # page url to {"key", "facts"}
        self.common = self.common_key()

    def build(self) -> int:
        old = self.read_manifest()
        entries: dict[str, dict[str, Any]] = {}
        written = 0
        self.copy_assets()
        for source in self.sources:
            url, key = source.page.url, self.key(source)
            kept = old.get(url)
            if kept and kept["key"] == key and (self.folder / url).exists():
                entries[url] = kept
                continue
            entries[url] = {"key": key, "facts": self.write_page(source).to_json()}
            written += 1
        facts = {url: PageFacts.from_json(entry["facts"]) for url, entry in entries.items()}
        self.check_links(facts)
        self.remove_old(set(entries))
        self.write_search_index(facts)
        self.manifest.write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")
        return written

    def read_manifest(self) -> dict[str, dict[str, Any]]:
        try:
            return json.loads(self.manifest.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    def common_key(self) -> str:
        """A hash of what every page shows or is made by: theme, renderer, titles of all pages."""
        digest = hashlib.sha256()
        for path in sorted([*THEME.glob("*.*"), *THEME.parent.glob("*.py")]):
            digest.update(path.read_bytes())
        titles = [(page.url, page.doc.front) for page in self.pages]
        digest.update(json.dumps([titles, self.site], default=str).encode())
        return digest.hexdigest()

    def key(self, source: Source) -> str:
        parts = [self.common, source.outputs_key, *self.texts(source)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def texts(self, source: Source) -> list[str]:
        docs = [source.page.doc]
        if source.solution and self.site["instructor"]:
            docs.append(source.solution)
        return ["".join(block.text for block in doc.blocks) for doc in docs]

    def write_page(self, source: Source) -> PageFacts:
        page = source.page
        outputs = execute(
            page.doc, source.answers, self.root, source.outputs_key, progress=self.progress
        )
        solution = source.solution if self.site["instructor"] else None
        assembly = assemble(page.doc, outputs, solution)
        toc, body = to_html(page, assembly.markdown, self.urls)
        target = self.folder / page.url
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target.parent / f"{page.doc.path.stem}_files", ignore_errors=True)
        for name, picture in assembly.pictures.items():
            (target.parent / name).parent.mkdir(exist_ok=True)
            (target.parent / name).write_bytes(picture)
        target.write_text(frame(page, self.pages, toc, body, self.site), encoding="utf-8")
        return read_facts(page.doc.title, body)

    def copy_assets(self) -> None:
        assets = self.folder / "assets"
        assets.mkdir(parents=True, exist_ok=True)
        for name in STATIC:
            shutil.copyfile(THEME / name, assets / name)
        for package in ("katex", "mermaid"):
            shutil.copytree(THEME / "vendor" / package, assets / package, dirs_exist_ok=True)
        for part, place in (("course/images", "images"), ("lessons/images", "lessons/images")):
            if (self.root / part).is_dir():
                shutil.copytree(self.root / part, self.folder / place, dirs_exist_ok=True)

    def check_links(self, facts: dict[str, PageFacts]) -> None:
        """Every link within the site must lead to a page, an id or a file that is there."""
        for page in self.pages:
            for link in facts[page.url].links:
                if re.match(r"[\w+.-]+:|//", link):
                    continue
                path, _, anchor = unquote(link).partition("#")
                place = posixpath.join(posixpath.dirname(page.url), path)
                if page.is_404:
                    place = path.removeprefix(self.site["site_path"])
                url = posixpath.normpath(place) if path else page.url
                missing = url not in facts and not (self.folder / url).exists()
                if missing or (anchor and url in facts and anchor not in facts[url].ids):
                    raise QmdError(page.doc.path, 1, f"the link {link} leads nowhere")

    def remove_old(self, urls: set[str]) -> None:
        """Pages whose source has gone, and the pictures of such pages."""
        for path in self.folder.rglob("*.html"):
            if path.relative_to(self.folder).as_posix() not in urls:
                path.unlink()
        for path in self.folder.rglob("*_files"):
            if not path.with_name(path.name.removesuffix("_files") + ".html").exists():
                shutil.rmtree(path)

    def write_search_index(self, facts: dict[str, PageFacts]) -> None:
        """A script, not JSON, so that the search also works where pages are opened as files."""
        entries = []
        for page in self.pages:
            if page.is_404:
                continue
            for section in facts[page.url].sections:
                href = page.url + (f"#{section.id}" if section.id else "")
                entries.append([page.doc.lang, page.doc.title, section.title, href, section.text])
        data = json.dumps(entries, ensure_ascii=False, separators=(",", ":"))
        script = f"window.courseSearch = {data};\n"
        (self.folder / "assets/search-index.js").write_text(script, encoding="utf-8")


def site_settings(root: Path) -> dict[str, Any]:
    """Titles and the path the site is served under, from course/_quarto.yml."""
    path = root / "course/_quarto.yml"
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        title = settings["website"]["title"]
    except (OSError, KeyError, TypeError, yaml.YAMLError):
        raise ValueError(f"{path}: needs a title under website:") from None
    return {
        "title": title,
        "title-zh": settings.get("course-title-zh", title),
        "site_path": settings["website"].get("site-path", "/"),
    }
