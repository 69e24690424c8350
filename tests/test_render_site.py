"""The site of a tiny course: complete, linked, without answers for students, from nowhere else."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tiny_course import write_course

from course.render import quarto, site
from course.render.__main__ import main
from course.render.qmd import QmdError

LESSON = "lessons/lesson01_tiny.html"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    root = write_course(tmp_path_factory.mktemp("course"))
    site.build(root, root / "build/site", progress=False)
    return root


@pytest.fixture
def copy(course, tmp_path):
    """A built course that a test may change; nothing runs again as long as the code stays."""
    return Path(shutil.copytree(course, tmp_path / "course"))


def read(course, name, edition="site"):
    return (course / "build" / edition / name).read_text("utf-8")


def build(root):
    return site.build(root, root / "build/site", progress=False)


class Assets(HTMLParser):
    """Everything that a browser fetches by itself, and the ids of the page."""

    def __init__(self):
        super().__init__()
        self.fetched, self.ids, self.images = [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.fetched += [attrs[k] for k in ("src", "href") if k in attrs and tag != "a"]
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.images += [attrs] if tag == "img" else []


def parsed(html):
    parser = Assets()
    parser.feed(html)
    return parser


def test_pages_of_both_editions_are_there(course):
    for edition in ("site", "site-instructor"):
        pages = sorted(
            path.relative_to(course / "build" / edition).as_posix()
            for path in (course / "build" / edition).rglob("*.html")
        )
        assert pages == [
            "404.html",
            "index.html",
            "index.zh.html",
            LESSON,
            "lessons/lesson01_tiny.zh.html",
        ]


def test_pages_for_instructors_are_in_their_edition_only(copy):
    text = '---\ntitle: "Marks"\nlang: en\n---\n\nSee the [start](../index.qmd#start).\n'
    (copy / "course/instructor").mkdir()
    (copy / "course/instructor/marks.qmd").write_text(text)
    build(copy)
    page = read(copy, "instructor/marks.html", "site-instructor")
    assert '<a href="../index.html#start">start</a>' in page
    assert 'href="instructor/marks.html"' in read(copy, "index.html", "site-instructor")
    assert not (copy / "build/site/instructor").exists()
    assert "Marks" not in read(copy, "index.html") + read(copy, "assets/search-index.js")


def test_nothing_is_fetched_from_elsewhere_and_every_asset_is_there(course):
    for page in (course / "build/site").rglob("*.html"):
        found = parsed(page.read_text("utf-8"))
        assert len(found.fetched) > 5
        assert len(set(found.ids)) == len(found.ids)
        for link in found.fetched:
            assert not re.match(r"\w+:|//", link), link
            target = course / "build/site" / link[1:] if link[0] == "/" else page.parent / link
            assert target.is_file(), (page.name, link)


def test_the_students_site_holds_no_answer_and_the_instructors_does(course):
    student = "".join(
        path.read_text("utf-8")
        for path in (course / "build/site").rglob("*")
        if path.suffix in (".html", ".js", ".json") and path.parent.name != "mermaid"
    )
    assert "SECRET" not in student and "x / 2" not in student
    teacher = re.sub("<[^>]+>", "", read(course, LESSON, "site-instructor"))
    assert "SECRET-CODE" in teacher and "SECRET-PROSE" in teacher
    assert "Instructor edition" in teacher
    exercise = read(course, LESSON, "site-instructor").split('data-label="half"')[1][:2000]
    assert "______" in exercise.split("data-label")[0]


def test_outputs_come_from_the_answers(course):
    assert "half of 3 is 1.5" in read(course, LESSON)


def test_figures_tables_and_references_are_numbered_and_described(course):
    html = read(course, LESSON)
    assert '<a href="#fig-line">Figure 2</a>' in html
    assert '<a href="#tbl-one">Table 1</a>' in html
    assert '<span class="float-number">Figure 1: </span>One round.' in html
    (image,) = parsed(html).images
    assert image["alt"] == "A dot."
    chinese = read(course, "lessons/lesson01_tiny.zh.html")
    assert '<a href="#fig-line">图 1</a>' in chinese
    assert '<span class="float-number">图 1：</span>一个点。' in chinese


def test_callouts_diagrams_and_pagination(course):
    html = read(course, LESSON)
    toc = html.split("<article>")[1].split("</details>")[0]
    assert "A heading of a callout" in html and "A heading of a callout" not in toc
    assert re.search(r'<details class="callout callout-tip"><summary [^>]*>\s*Open me', html)
    assert 'aria-label="One round."' in html and "propose &lt;br/&gt; tokens" in html
    assert 'href="../index.html" class="pagination-link pagination-next"' in html
    assert ":::" not in html and "{mermaid}" not in html


def test_heavy_scripts_are_loaded_only_where_needed(course):
    assert "mermaid.min.js" in read(course, LESSON) and "katex.min.js" in read(course, LESSON)
    assert "mermaid.min.js" not in read(course, "index.html")
    assert "katex.min.js" not in read(course, "index.html")


def test_language_switch_and_navigation(course):
    html = read(course, LESSON)
    assert 'href="../lessons/lesson01_tiny.zh.html">中文</a>' in html
    assert '<a href="../lessons/lesson01_tiny.html" aria-current="page">Lesson 1: Halves' in html
    assert "Halves &amp; &lt;more&gt;</h1>" in html
    assert "Start here" in html and "Page not found" not in html
    chinese = read(course, "lessons/lesson01_tiny.zh.html")
    assert 'lang="zh-CN"' in chinese and "小课程" in chinese and "第 1 课：一半" in chinese


def test_the_search_index_holds_both_languages(course):
    script = read(course, "assets/search-index.js")
    entries = json.loads(script.removeprefix("window.courseSearch = ").rstrip(";\n"))
    assert all(len(entry) == 5 for entry in entries)
    assert {entry[0] for entry in entries} == {"en", "zh"}
    (reading,) = [entry for entry in entries if "回滚" in entry[4]]
    assert reading[2:4] == ["阅读", "lessons/lesson01_tiny.zh.html#阅读"]
    assert not any("flowchart" in entry[4] or "in preparation" in entry[4] for entry in entries)


def test_the_page_for_missing_addresses_links_from_the_sites_root(course):
    html = read(course, "404.html")
    assert 'href="/index.html">start page' in html and 'href="/assets/site.css"' in html


def test_a_second_build_writes_nothing_and_a_change_only_its_page(copy):
    assert build(copy) == 0
    page = copy / "course/index.zh.qmd"
    page.write_text(page.read_text("utf-8") + "\n新的一段。\n", encoding="utf-8")
    assert build(copy) == 2
    assert "新的一段" in read(copy, "index.zh.html")
    (copy / "build/site/index.html").unlink()
    assert build(copy) == 1


def test_answers_that_change_rewrite_the_instructors_page_only(copy):
    path = copy / "solutions/lesson01/answers.qmd"
    path.write_text(path.read_text("utf-8").replace("SECRET-PROSE", "NEW-PROSE"), "utf-8")
    assert build(copy) == 1
    assert "NEW-PROSE" in read(copy, LESSON, "site-instructor")


def test_pages_whose_source_has_gone_are_removed(copy):
    for name in ("lessons/lesson01_tiny.zh.qmd", "course/index.zh.qmd"):
        (copy / name).unlink()
    build(copy)
    assert not (copy / "build/site/lessons/lesson01_tiny.zh.html").exists()
    assert not (copy / "build/site/lessons/lesson01_tiny.zh_files").exists()
    assert (copy / "build/site/lessons/lesson01_tiny_files").exists()


@pytest.mark.parametrize(
    ("file", "addition", "words"),
    [
        (
            "course/index.qmd",
            "\n::: {.callout-note}\nopen\n",
            "index.qmd:15: this div is not closed",
        ),
        ("course/index.qmd", "\n[x](../lessons/none.qmd)\n", "lessons/none.qmd is missing"),
        ("course/index.qmd", "\n[x](index.qmd#nowhere)\n", "index.html#nowhere leads nowhere"),
        ("course/index.qmd", "\n![x](images/none.png)\n", "images/none.png leads nowhere"),
        ("course/index.qmd", "\nSee @fig-none.\n", "@fig-none refers to nothing"),
        ("course/_quarto.yml", "\n  bad: [\n", "needs a title under website"),
    ],
)
def test_a_broken_source_is_one_line(copy, capsys, file, addition, words):
    with (copy / file).open("a", encoding="utf-8") as stream:
        stream.write(addition)
    code = main(["build", "--root", str(copy), "--out", str(copy / "build/site")])
    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("error: ") and words in error and error.count("\n") == 1


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="run this in the repository"):
        build(tmp_path)


def test_a_picture_beside_the_lessons_is_copied(copy):
    (copy / "lessons/images").mkdir()
    (copy / "lessons/images/a.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    page = copy / "lessons/lesson01_tiny.qmd"
    page.write_text(page.read_text("utf-8") + "\n![A](images/a.svg){#fig-a}\n", encoding="utf-8")
    build(copy)
    assert (copy / "build/site/lessons/images/a.svg").exists()
    assert 'src="images/a.svg"' in read(copy, LESSON)


def test_quarto_gets_a_project_whose_links_lead_somewhere(course, tmp_path):
    staged = quarto.stage(course, tmp_path / "quarto")
    assert (staged / "_quarto.yml").is_file()
    assert (staged / "assets/katex/katex.min.js").is_file()
    index = (staged / "index.qmd").read_text("utf-8")
    assert "](lessons/lesson01_tiny.qmd#questions)" in index
    lesson = (staged / LESSON.replace(".html", ".qmd")).read_text("utf-8")
    assert "](../index.qmd)" in lesson and "SECRET" not in lesson


def test_quarto_that_is_not_there_is_one_line(course, monkeypatch, capsys):
    monkeypatch.setenv("RENDERER", "quarto")
    monkeypatch.setenv("PATH", "")
    assert main(["build", "--root", str(course)]) == 2
    assert "quarto is not on the PATH" in capsys.readouterr().err
    monkeypatch.setenv("RENDERER", "word")
    assert main(["build", "--root", str(course)]) == 2


def test_an_exercise_without_its_answer_stops_the_build(copy):
    (copy / "solutions/lesson01/answers.zh.qmd").unlink()
    with pytest.raises(QmdError, match=r"lesson01_tiny.zh.qmd:\d+: exercise 'half' has no answer"):
        build(copy)
