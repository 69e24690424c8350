"""The lesson lint finds every kind of mistake, names its line, and passes the real lessons."""

from pathlib import Path

import pytest
from tiny_course import write_course

from course.render.__main__ import main
from course.render.lint import lint_all, lint_document
from course.render.qmd import parse_text

ROOT = Path(__file__).parents[1]


def test_the_repository_is_clean():
    assert [str(problem) for problem in lint_all(ROOT)] == []


def test_a_clean_course_has_no_problem(tmp_path):
    assert main(["lint", "--root", str(write_course(tmp_path))]) == 0


HEAD = "---\ntitle: T\nlang: en\n---\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("```{python}\n1\n```\n", 5, "without `#| label:`"),
        ("```{python}\n#| label: a b\n1\n```\n", 5, "letters, digits"),
        ("```{python}\n#| label: md-1\n1\n```\n", 5, "letters, digits"),
        (
            "```{python}\n#| label: a\n```\n```{python}\n#| label: a\n```\n",
            8,
            "already used on line 5",
        ),
        (
            "```{python}\n#| label: a\n#| course_role: exam\n1\n```\n",
            5,
            "unknown course_role 'exam'",
        ),
        ("```{python}\n#| label: a\n#| course_role: practice\n1\n```\n", 5, "eval: false"),
        (
            "```{python}\n#| label: a\n#| course_role: exercise\n#| eval: false\n1\n```\n",
            5,
            "blank",
        ),
        ("```{python}\n#| label: a\n#| course_role: check\n#| eval: false\n1\n```\n", 5, "points"),
        ("::: {#q1 .course-answer}\n:::\n", 5, "points"),
    ],
)
def test_a_mistake_in_one_file(text, line, words):
    (problem,) = lint_document(parse_text(HEAD + text))
    assert problem.line == line and words in str(problem)


def test_front_matter_needs_title_and_language():
    assert len(lint_document(parse_text("text", "a.qmd"))) == 2
    (problem,) = lint_document(parse_text("---\ntitle: T\nlang: en\n---\n", "a.zh.qmd"))
    assert "lang: zh" in str(problem)


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("lessons/lesson01_tiny.zh.qmd", "import math", "import cmath", "code differs"),
        ("lessons/lesson01_tiny.zh.qmd", "label: main", "label: other", "label 'other' differs"),
        ("lessons/lesson01_tiny.zh.qmd", "points: 2", "points: 3", "options differs"),
        ("lessons/lesson01_tiny.zh.qmd", 'points="2"', 'points="1"', "points differs"),
        ("solutions/lesson01/answers.qmd", "label: half", "label: third", "'half' has no answer"),
        ("solutions/lesson01/answers.qmd", "#q1", "#q7", "'q7' answers nothing"),
        ("course/index.qmd", "```sh", "````sh", "not closed"),
    ],
)
def test_a_mistake_between_files(tmp_path, capsys, file, old, new, words):
    path = write_course(tmp_path) / file
    path.write_text(path.read_text("utf-8").replace(old, new, 1), encoding="utf-8")
    assert main(["lint", "--root", str(tmp_path)]) == 1
    assert words in capsys.readouterr().err


def test_a_page_without_its_translation(tmp_path):
    (write_course(tmp_path) / "course/index.zh.qmd").unlink()
    (problem,) = lint_all(tmp_path)
    assert "index.zh.qmd is missing" in str(problem)
