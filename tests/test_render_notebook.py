"""Notebooks: valid, the same ids every time, and readable in JupyterLab."""

import nbformat
import pytest
from tiny_course import LESSON, LESSON_ZH

from course.render.notebook import to_notebook
from course.render.qmd import parse_text
from course.render.readable import readable


def markdown_of(text, front="---\ntitle: T\nlang: en\n---\n"):
    cells = readable(to_notebook(parse_text(front + text))).cells
    return "\n<cell>\n".join(cell.source for cell in cells[1:])


@pytest.mark.parametrize("text", [LESSON, LESSON_ZH])
def test_notebooks_are_valid_and_ids_are_unique_and_stable(text):
    for convert in (to_notebook, lambda doc: readable(to_notebook(doc))):
        first, second = (convert(parse_text(text, "lesson01_tiny.qmd")) for _ in range(2))
        nbformat.validate(first)
        ids = [cell.id for cell in first.cells]
        assert ids == [cell.id for cell in second.cells]
        assert len(set(ids)) == len(ids)
        assert (first.nbformat, first.nbformat_minor) == (4, 5)
        assert first.metadata.kernelspec.name == "python3"
        assert first.metadata.course.unit == "lesson01"


def test_cells_carry_label_role_and_points():
    cells = {cell.id: cell for cell in to_notebook(parse_text(LESSON)).cells}
    assert cells["main"].metadata == {"label": "main", "course_role": "check", "points": 2}
    assert cells["half"].metadata == {"label": "half", "course_role": "exercise"}
    assert cells["half"].source.startswith("#| label: half\n#| eval: false\ndef half")
    answer = cells["q1"]
    assert answer.cell_type == "markdown"
    assert answer.metadata == {"label": "q1", "course_role": "answer", "points": 2}
    assert answer.source == "*Your answer:*"


def test_front_matter_is_a_raw_cell_without_jupyter():
    first = to_notebook(parse_text("---\njupyter: python3\ntitle: T\n---\n\nbody\n")).cells[0]
    assert (first.cell_type, first.source) == ("raw", "---\ntitle: T\n---")


def test_id_and_nbgrader_keys_go_where_quarto_puts_them():
    text = "```{python}\n#| id: own\n#| nbgrader: {grade: true}\n1\n```\n"
    (cell,) = to_notebook(parse_text(text)).cells
    assert cell.id == "own"
    assert cell.metadata == {"nbgrader": {"grade": True}}


def test_an_indented_cell_keeps_its_indent_as_metadata():
    text = "- a\n\n  ```{python}\n  1\n  ```\n"
    assert to_notebook(parse_text(text)).cells[1].metadata == {"md-indent": "  "}


def test_markdown_loses_outer_blank_lines_and_empty_cells_are_dropped():
    text = "\n\na\n\n```{python}\n1\n```\n\n\n```{python}\n2\n```\n"
    assert [cell.source for cell in to_notebook(parse_text(text)).cells] == ["a", "1", "2"]


def test_the_title_becomes_a_heading():
    title = readable(to_notebook(parse_text("---\ntitle: A lesson\n---\n"))).cells[0]
    assert (title.cell_type, title.source) == ("markdown", "# A lesson")


def test_callouts_become_quotes():
    assert markdown_of("::: {.callout-warning}\n## Own *title*\nbody\n:::\n") == (
        "> **Own *title***\n>\n> body"
    )
    assert markdown_of("::: callout-tip\nbody\n:::\n") == "> **Tip**\n>\n> body"
    assert markdown_of('::: {.callout-tip appearance="simple"}\nbody\n:::\n') == "> body"
    zh = "---\nlang: zh\n---\n"
    assert "**提示**" in markdown_of("::: {.callout-tip}\n正文\n:::\n", zh)


def test_folded_callouts_become_details():
    text = '::: {.callout-tip collapse="true" title="Open"}\n```\n:::\n```\nbody\n:::\nafter\n'
    assert markdown_of(text) == (
        "<details><summary>Open</summary>\n\n```\n:::\n```\nbody\n\n</details>\n\nafter"
    )


def test_a_callout_around_a_cell_is_quoted_on_both_sides():
    text = '::: {.callout-note collapse="true"}\na\n```{python}\n1\n```\nb\n:::\nc\n'
    assert markdown_of(text) == "> **Note**\n>\n> a\n<cell>\n1\n<cell>\n> b\n\nc"


def test_diagrams_figures_and_references():
    source = markdown_of(
        "See @fig-b and `@fig-b`.\n\n"
        "```{mermaid}\n%%| label: fig-a\n%%| fig-cap: 'One'\nA-->B\n```\n\n"
        '![Two](b.png){#fig-b fig-alt="x"}\n\n::: {#fig-c}\n```{mermaid}\nC\n```\n\nThree\n:::\n'
    )
    assert "See Figure 2 and `@fig-b`." in source
    assert "```mermaid\nA-->B\n```\n\n*Figure 1: One*" in source
    assert "![Two](b.png)\n\n*Figure 2: Two*" in source
    assert "```mermaid\nC\n```\n\n*Figure 3: Three*" in source


def test_pandoc_syntax_that_jupyterlab_would_print_is_gone():
    source = markdown_of(
        '## Head {#sec-a .x}\n\n[page](other.qmd#a) [out](https://x.org){target="_blank"} '
        "[word]{.mark} `c`{.py} $\\frac{1}{2}$\n\n::: {.column}\ntext\n:::\n\n"
        "````{.md}\n```{{python}}\n````\n\n::: {.course-pagination}\n[gone](a.qmd){.x}\n:::\n"
    )
    assert source == (
        "## Head\n\npage [out](https://x.org) word `c` $\\frac{1}{2}$\n\ntext\n\n"
        "````md\n```{python}\n````"
    )


def test_readable_leaves_the_given_notebook_alone():
    notebook = to_notebook(parse_text(LESSON))
    before = nbformat.writes(notebook)
    readable(notebook)
    assert nbformat.writes(notebook) == before
