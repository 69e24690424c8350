"""A lesson and its solutions pair by label, and nbgrader releases what build_release says."""

from pathlib import Path

import nbformat
import pytest

from autograder import assignment

LESSON = """---
title: "A lesson"
lang: en
jupyter: python3
---

Some prose.

```{python}
#| label: setup
#| course_role: setup
import math
```

```{python}
#| label: double
#| course_role: exercise
#| eval: false
def double(x):
    return ______
```

```{python}
#| label: main
#| course_role: check
#| eval: false
#| points: 2
assert double(2) == 4
```

::: {#q1 .course-answer points="2"}
*Your answer:*
:::

The end.
"""

ANSWERS = """---
title: "Answers"
lang: en
jupyter: python3
---

```{python}
#| label: double
def double(x):
    return x * 2
```

::: {#q1 .course-answer}
Because the secret reference says so.
:::
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "lessons").mkdir()
    (tmp_path / "solutions/lesson99").mkdir(parents=True)
    (tmp_path / "lessons/lesson99_small.qmd").write_text(LESSON)
    (tmp_path / "lessons/lesson99_small.zh.qmd").write_text(LESSON.replace("lang: en", "lang: zh"))
    (tmp_path / "solutions/lesson99/answers.qmd").write_text(ANSWERS)
    (tmp_path / "solutions/lesson99/rubric.yml").write_text("questions: {}\n")
    return tmp_path


def by_id(nb: nbformat.NotebookNode) -> dict[str, nbformat.NotebookNode]:
    return {cell.metadata["nbgrader"]["grade_id"]: cell for cell in nb.cells}


def test_units_are_those_with_a_rubric(root):
    (root / "lessons/lesson98_draft.qmd").write_text(LESSON)
    assert assignment.units(root) == ["lesson99"]


def test_each_role_gets_nbgraders_metadata(root):
    cells = by_id(assignment.build_source("lesson99", "en", root))
    flags = {
        name: tuple(cell.metadata["nbgrader"][key] for key in ("grade", "solution", "locked"))
        for name, cell in cells.items()
    }
    assert flags["setup"] == flags["front-matter"] == flags["md-1"] == (False, False, True)
    assert flags["double"] == (False, True, False)
    assert flags["main"] == (True, False, True)
    assert flags["q1"] == (True, True, False)
    assert cells["main"].metadata["nbgrader"]["points"] == 2.0


def test_source_has_the_answers_and_no_option_lines(root):
    cells = by_id(assignment.build_source("lesson99", "en", root))
    assert cells["double"].source == "def double(x):\n    return x * 2"
    assert cells["q1"].source == "Because the secret reference says so."
    assert cells["main"].source == "assert double(2) == 4"


def test_release_has_the_blanks_and_nothing_of_the_answers(root):
    release = assignment.build_release("lesson99", "en", root)
    cells = by_id(release)
    assert cells["double"].source == "def double(x):\n    return ______"
    assert cells["q1"].source == "*Your answer:*"
    assert cells["main"].metadata["editable"] is False
    text = nbformat.writes(release)
    assert "x * 2" not in text and "secret reference" not in text


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("solutions/lesson99/answers.qmd", "label: double", "label: triple", "'double' has no"),
        ("solutions/lesson99/answers.qmd", "#q1", "#q2", "'q1' has no answer"),
        (
            "lessons/lesson99_small.qmd",
            "course_role: exercise",
            "course_role: practice",
            "'double'",
        ),
        ("lessons/lesson99_small.qmd", "#q1", "#q9", "'q9' has no answer"),
        ("lessons/lesson99_small.qmd", "#| points: 2\n", "", "'main' needs a number of points"),
    ],
)
def test_orphans_and_missing_points_are_named(root, file, old, new, words):
    path = root / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(assignment.AssignmentError, match=words) as caught:
        assignment.build_source("lesson99", "en", root)
    assert "lesson99" in str(caught.value) and "\n" not in str(caught.value)


def test_two_answers_with_one_label(root):
    path = root / "solutions/lesson99/answers.qmd"
    path.write_text(ANSWERS + "\n```{python}\n#| label: double\npass\n```\n")
    with pytest.raises(assignment.AssignmentError, match="a second answer labelled 'double'"):
        assignment.build_source("lesson99", "en", root)


@pytest.mark.parametrize(
    ("unit", "lang", "words"),
    [
        ("lesson77", "en", "0 files found"),
        ("lesson99", "fr", "unknown language 'fr'"),
        ("lesson99", "zh", "answers.zh.qmd: missing"),
    ],
)
def test_what_is_not_there_is_named(root, unit, lang, words):
    with pytest.raises(assignment.AssignmentError, match=words):
        assignment.build_source(unit, lang, root)
