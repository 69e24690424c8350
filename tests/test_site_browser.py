"""The tiny course's site in Chromium: no errors, nothing from outside, and everything works."""

import functools
import http.server
import re
import shutil
import threading

import pytest
from tiny_course import write_course

from course.render import site

pytestmark = pytest.mark.browser

LESSON = "lessons/lesson01_tiny.html"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = write_course(tmp_path_factory.mktemp("browser"))
    site.build(root, root / "site", ["student"], progress=False)
    handler = functools.partial(Quiet, directory=root / "site")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, served):
    """Opens pages of the site; at the end nothing may have gone wrong on any of them."""
    troubles, contexts = [], []

    def opened(url, **options):
        options = {"color_scheme": "light", "viewport": {"width": 1300, "height": 800}} | options
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("requestfailed", lambda request: troubles.append(request.url))
        page.on("console", lambda m: troubles.append(m.text) if m.type == "error" else None)
        page.on("request", lambda r: None if r.url.startswith(served) else troubles.append(r.url))
        page.goto(served + url)
        page.wait_for_load_state("networkidle")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def wait_for_theme(page, theme):
    page.wait_for_function(f"document.documentElement.dataset.theme == '{theme}'", timeout=5000)


def search(page, words):
    page.keyboard.press("/")
    page.keyboard.type(words)
    page.wait_for_selector("#search-results li, .search-status:not(:empty)")


@pytest.mark.parametrize(
    "url", ["index.html", "index.zh.html", "404.html", LESSON, "lessons/lesson01_tiny.zh.html"]
)
def test_every_page_loads_cleanly(open_page, url):
    page = open_page(url)
    assert page.locator("h1").count() == 1


def test_formulas_and_diagrams_are_drawn_in_both_themes(open_page):
    page = open_page(LESSON)
    assert page.locator(".math .katex").count() == 2
    page.wait_for_selector("pre.mermaid svg")
    fill = "getComputedStyle(document.querySelector('pre.mermaid .node rect')).fill"
    light = page.evaluate(fill)
    page.locator(".theme-button").click()
    page.wait_for_function(f"document.querySelector('pre.mermaid .node') && {fill} != '{light}'")
    assert page.locator("pre.mermaid svg").count() == 1


def test_the_theme_follows_the_system_until_chosen_and_is_remembered(open_page):
    page = open_page("index.html", color_scheme="dark")
    wait_for_theme(page, "dark")
    page.emulate_media(color_scheme="light")
    wait_for_theme(page, "light")
    page.locator(".theme-button").click()
    page.reload()
    wait_for_theme(page, "dark")
    page.locator(".theme-button").click()
    page.emulate_media(color_scheme="dark")
    wait_for_theme(page, "dark")


def test_search_finds_chinese_and_english_by_keyboard(open_page):
    page = open_page("index.html")
    search(page, "回滚")
    assert page.locator("#search-results li").count() == 1
    assert page.locator("#search-results mark").first.inner_text() == "回滚"
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("lesson01_tiny.zh.html"))
    search(page, "DRAFT side")
    assert "A heading of a callout" in page.locator("#search-results li").first.inner_text()
    page.keyboard.press("Escape")
    assert not page.locator("dialog.search").is_visible()


def test_search_prefers_the_page_language_and_says_when_nothing_is_found(open_page):
    page = open_page("index.zh.html")
    search(page, "half")
    first = page.locator("#search-results a").first
    assert first.get_attribute("lang") == "zh"
    page.keyboard.press("ArrowUp")
    last = page.locator("#search-results li").last
    assert last.get_attribute("aria-selected") == "true"
    page.keyboard.type(" <no such thing>")
    page.wait_for_function("!document.querySelector('#search-results li')")
    assert page.locator(".search-status").inner_text() == "没有找到"


def test_the_language_switch_leads_to_the_same_lesson(open_page):
    page = open_page(LESSON)
    page.locator("a.language").click()
    page.wait_for_url(re.compile("lesson01_tiny.zh.html"))
    assert page.locator("h1").inner_text() == "第 1 课：一半"


@pytest.mark.parametrize("url", ["index.html", LESSON, "lessons/lesson01_tiny.zh.html"])
def test_a_phone_shows_no_sideways_scroll_and_a_menu(open_page, url):
    page = open_page(url, viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert not page.locator("#sidebar").is_visible()
    page.locator(".menu-button").click()
    assert page.locator("#sidebar a[aria-current]").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#sidebar").is_visible()


def test_a_link_into_a_folded_callout_opens_it(open_page):
    page = open_page(LESSON)
    page.evaluate("document.querySelector('details.callout .callout-body').id = 'inside'")
    page.evaluate("location.hash = '#inside'")
    page.wait_for_selector("details.callout[open]")
