"""The parser gives Quarto's own cells, and names the line of what is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.render.qmd import Cell, Markdown, QmdError, parse, parse_text


def cells_of(text):
    return parse_text(text).cells


def test_front_matter_is_split_off_even_when_a_blank_line_follows():
    for text in ("---\ntitle: T\nlang: zh\n---\n\nbody\n", "---\ntitle: T\nlang: zh\n---\nbody\n"):
        doc = parse_text(text)
        assert (doc.title, doc.lang) == ("T", "zh")
        assert "".join(block.text for block in doc.body).strip() == "body"


@pytest.mark.parametrize("jupyter", ["jupyter: python3", "jupyter: {kernelspec: {name: python3}}"])
def test_jupyter_may_be_a_name_or_a_mapping(jupyter):
    assert "jupyter" in parse_text(f"---\ntitle: T\n{jupyter}\n---\n").front


def test_unit_is_the_file_name_up_to_the_first_underscore_or_dot():
    assert parse_text("", "lessons/lesson08_modern.zh.qmd").unit == "lesson08"
    assert parse_text("", "course/index.zh.qmd").unit == "index"


def test_language_of_a_file_without_one_comes_from_its_name():
    assert parse_text("", "a.zh.qmd").lang == "zh"
    assert parse_text("", "a.qmd").lang == "en"


@pytest.mark.parametrize(
    "opening",
    ["```{python}", "````{python}", "```{python}  ", "```{python, echo=FALSE}", "  ```{python}"],
)
def test_a_cell_opens_with_backticks_and_the_word_python(opening):
    closing = opening[: opening.index("{")]
    (cell,) = cells_of(f"{opening}\nx = 1\n{closing}\n")
    assert cell.source.strip() == "x = 1"


@pytest.mark.parametrize(
    "opening",
    ["~~~{python}", "```python", "```{.python}", "```{r}", "```{{python}}", "```{pythonic}"],
)
def test_other_fences_are_markdown(opening):
    closing = opening[:3]
    assert cells_of(f"{opening}\nx = 1\n{closing}\n") == []


def test_a_cell_ends_at_the_same_indent_and_number_of_backticks():
    (cell,) = cells_of("````{python}\ntext = '''\n```\n  ````\n'''\n````\n")
    assert cell.source == "text = '''\n```\n  ````\n'''"


def test_options_known_to_quarto_and_others_are_told_apart():
    (cell,) = cells_of(
        "```{python}\n\n#| label: a\n# | course_role: check\n#|points: 2\n#| fig-cap:\n#|   - one\n"
        "#| fig-width: 4\n#| eval: false\nx = 1\n#| not: an option\n```\n"
    )
    assert cell.options == {"label": "a", "fig-cap": ["one"], "eval": False}
    assert cell.metadata == {"course_role": "check", "points": 2, "fig-width": 4}
    assert cell.option_lines == ("label: a", "fig-cap:", "  - one", "eval: false")
    assert cell.source == "x = 1\n#| not: an option"
    assert (cell.label, cell.role) == ("a", "check")


def test_a_cell_in_a_list_loses_its_indent():
    (cell,) = cells_of("- item\n\n  ```{python}\n  #| label: a\n  if x:\n      y = 1\n  ```\n")
    assert cell.source == "if x:\n    y = 1"
    assert (cell.indent, cell.line) == ("  ", 3)


def test_windows_line_ends_are_kept_out_of_the_code():
    (cell,) = cells_of("```{python}\r\n#| label: a\r\nx = 1\r\ny = 2\r\n```\r\n")
    assert cell.source == "x = 1\ny = 2"


def test_an_answer_div_is_a_block_of_its_own():
    doc = parse_text('before\n\n::: {#q1 .course-answer points="1.5"}\n*Answer:*\n:::\nafter\n')
    (answer,) = doc.answers
    assert (answer.label, answer.points, answer.body, answer.line) == ("q1", 1.5, "*Answer:*\n", 3)


def test_an_answer_may_hold_divs_and_fences():
    text = "::: {#q1 .course-answer}\n::: note\na\n:::\n```\n:::\n```\n:::\nafter\n"
    (answer,) = parse_text(text).answers
    assert answer.body.endswith("```\n:::\n```\n")


def test_colons_inside_a_fence_are_not_divs():
    assert len(parse_text("```\n::: {.x}\n```\n").blocks) == 1


def test_a_literal_cell_in_a_longer_fence_is_markdown_when_its_braces_are_doubled():
    doc = parse_text("````\n```{{python}}\nx\n```\n````\n")
    assert [type(block) for block in doc.blocks] == [Markdown]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\n````\n```{python}\n1\n```\n````\n", 3, "{{python}}"),
        ("a\n```{python}\n1\n", 2, "not closed"),
        ("a\n\n```\ncode\n", 3, "fence is not closed"),
        ("::: {.callout-note}\na\n", 1, "div is not closed"),
        ("a\n:::\n", 2, "closes nothing"),
        ("---\ntitle: T\n", 1, "front matter"),
        ("---\ntitle: T\na: b: c\n---\n", 3, "YAML"),
        ("x\n```{python}\n#| label: a\n#| a: b: c\n```\n", 4, "YAML"),
        ("```{python}\n#| just words\n```\n", 2, "key: value"),
        ("::: {.course-answer}\n:::\n", 1, "id"),
        ('::: {#q .course-answer points="two"}\n:::\n', 1, "number"),
        ("::: {.x}\n::: {#q .course-answer}\n:::\n:::\n", 2, "inside another div"),
        ("::: {#q .course-answer}\n```{python}\n```\n:::\n", 2, "inside an answer"),
        ("{{< include _x.qmd >}}\n", 1, "include"),
    ],
)
def test_a_broken_source_is_refused_with_file_and_line(text, line, words):
    with pytest.raises(QmdError) as error:
        parse_text(text, "lesson.qmd")
    message = str(error.value)
    assert message.startswith(f"lesson.qmd:{line}: ")
    assert words in message and "\n" not in message


def test_a_missing_file_and_one_that_is_not_text_are_refused(tmp_path):
    with pytest.raises(QmdError, match="no such file"):
        parse(tmp_path / "none.qmd")
    (tmp_path / "bad.qmd").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(QmdError, match="UTF-8"):
        parse(tmp_path / "bad.qmd")


LINES = st.sampled_from(
    [
        "",
        "text",
        "文字",
        "---",
        "title: T",
        "```",
        "````",
        "~~~",
        "```{python}",
        "  ```{python}",
        "#| label: a",
        "# | eval: false",
        "x = 1",
        "  ```",
        "```{mermaid}",
        "::: {.callout-note}",
        ":::",
        '::: {#q1 .course-answer points="2"}',
        "```{{python}}",
        "    indented",
        "\u2028x",
    ]
)


@given(st.lists(LINES, max_size=25), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_no_text_is_lost(lines, end, ends_with_newline):
    text = end.join(lines) + (end if ends_with_newline else "")
    try:
        doc = parse_text(text)
    except QmdError:
        return
    assert "".join(block.text for block in doc.blocks) == text
    number = 1
    for block in doc.blocks:
        assert block.line == number
        number += block.text.count("\n")
        assert not isinstance(block, Cell) or "```{python}" in block.text
