"""One page: its markdown through pandoc, its links resolved, the frame around it."""

from __future__ import annotations

import json
import posixpath
import re
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import pypandoc

from course.render.document import Document, QmdError, unit_order
from course.render.labels import WORDS, words
from course.render.lint import BLANK

THEME = Path(__file__).parent / "theme"
READER = "markdown+emoji+east_asian_line_breaks-yaml_metadata_block"
QMD_LINK = re.compile(r'href="(?!\w+:)([^"#?]+\.qmd)(#[^"]*)?"')


@dataclass(frozen=True)
class Page:
    """A source file and where its page goes.

    `root` is what the page's links to other pages start with: "" or "../", but the site's absolute
    path for 404.html, which a server shows at addresses of any depth.
    """

    doc: Document
    source: str  # relative to the repository: lessons/lesson08_x.zh.qmd
    url: str  # relative to the site: lessons/lesson08_x.zh.html
    root: str

    @property
    def is_404(self) -> bool:
        return self.source == "course/404.qmd"

    @property
    def is_lesson(self) -> bool:
        return self.source.startswith("lessons/")

    @property
    def is_for_instructors(self) -> bool:
        return self.source.startswith("course/instructor/")


def page_of(doc: Document, source: str, site_path: str) -> Page:
    """Where a source's page goes: course pages at the site's root, lessons under lessons/."""
    url = source.removeprefix("course/").removesuffix(".qmd") + ".html"
    root = site_path if url == "404.html" else "../" * url.count("/")
    return Page(doc, source, url, root)


def to_html(page: Page, markdown: str, urls: dict[str, str]) -> tuple[str, str]:
    """The table of contents and the body of a page.

    `urls` maps every source to its url. Raises QmdError where pandoc refuses, a reference has no
    target, or a link leads to a .qmd that is not there.
    """
    labels = words(page.doc.lang)
    metadata = {f"word-{key}": value for key, value in labels.items()}
    metadata |= {"word-lang": page.doc.lang, "title": page.doc.title}
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(metadata, file)
        file.flush()
        try:
            html = pypandoc.convert_text(
                markdown,
                "html5",
                format=READER,
                extra_args=[
                    "--katex",
                    "--toc",
                    "--toc-depth=3",
                    "--wrap=none",
                    f"--metadata-file={file.name}",
                    f"--lua-filter={THEME / 'filter.lua'}",
                    f"--template={THEME / 'fragment.html'}",
                ],
            )
        except RuntimeError as error:
            reason = str(error).split("during conversion:")[-1].strip().splitlines()[0]
            raise QmdError(page.doc.path, 1, reason) from None
    toc, body = html.split("<!-- toc above, text below -->")
    body = QMD_LINK.sub(lambda link: f'href="{_resolve(page, link, urls)}"', body)
    body = body.replace(BLANK, f'<mark class="blank">{BLANK}</mark>')
    return re.sub(r' id="toc-[^"]*"', "", toc).strip(), body.strip()


def _resolve(page: Page, link: re.Match[str], urls: dict[str, str]) -> str:
    """A link to a .qmd, which is relative to the source file, as a link between pages."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), link[1]))
    if target not in urls:
        raise QmdError(page.doc.path, 1, f"a link leads to {link[1]}, but {target} is missing")
    return page.root + urls[target] + (link[2] or "")


def frame(page: Page, pages: list[Page], toc: str, body: str, site: dict[str, Any]) -> str:
    """The whole HTML of a page.

    `site` holds title and title-zh, and whether this is the edition of the `instructor`.
    """
    lang = page.doc.lang
    other = _translation(page.source)
    home = "index.zh.html" if lang == "zh" else "index.html"
    found = next((p.url for p in pages if p.source == other), None)
    return _template().render(
        lang=lang,
        words=words(lang),
        title=page.doc.title,
        description=page.doc.front.get("description"),
        site_title=site["title-zh"] if lang == "zh" else site["title"],
        instructor=site["instructor"],
        root=page.root,
        url=page.url,
        home=home,
        other_url=found or next((p.url for p in pages if p.url == _other_home(home)), None),
        navigation=_navigation(pages, lang),
        toc=toc,
        body=body,
        has_math='class="math' in body,
        has_diagram='class="mermaid"' in body,
    )


def _translation(source: str) -> str:
    stem = source.removesuffix(".qmd")
    return stem.removesuffix(".zh") + ".qmd" if stem.endswith(".zh") else stem + ".zh.qmd"


def _other_home(home: str) -> str:
    return "index.html" if home == "index.zh.html" else "index.zh.html"


def _navigation(pages: list[Page], lang: str) -> list[tuple[str, list[dict[str, str]]]]:
    """The sidebar: course pages (the index first), then lessons, of one language."""
    groups: dict[str, list[dict[str, str]]] = {"pages": [], "lessons": []}
    for page in sorted(pages, key=_reading_order):
        if page.doc.lang == lang and not page.is_404:
            title = str(page.doc.front.get("short-title", page.doc.title))
            group = "lessons" if page.is_lesson else "pages"
            groups[group].append({"url": page.url, "title": title})
    return [(WORDS[lang][key], entries) for key, entries in groups.items()]


def _reading_order(page: Page) -> tuple[object, ...]:
    first = not page.source.startswith("course/index")
    return first, page.is_lesson, unit_order(page.doc.unit) if page.is_lesson else page.url


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(THEME), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("template.html")
