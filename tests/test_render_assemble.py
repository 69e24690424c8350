"""A page's markdown: every kind of output, and text that must not be taken for markup."""

import base64

from nbformat.v4 import new_output

from course.render.assemble import assemble
from course.render.page import page_of, to_html
from course.render.qmd import parse_text

DOT = base64.b64encode(b"dot").decode()


def page(text, *outputs):
    doc = parse_text(text, "lessons/a.qmd")
    assembly = assemble(doc, [list(cell) for cell in outputs])
    return assembly, to_html(page_of(doc, "lessons/a.qmd", "/"), assembly.markdown, {})[1]


def cell(options, code="x"):
    return "```{python}\n" + "".join(f"#| {line}\n" for line in options) + code + "\n```\n"


def stream(text, name="stdout"):
    return new_output("stream", name=name, text=text)


def data(**mime):
    return new_output("display_data", data={key.replace("_", "/"): mime[key] for key in mime})


def test_streams_are_joined_and_shown_as_a_terminal_leaves_them():
    _, html = page(cell([]), [stream("10%\r"), stream("90%\rdone\n"), stream("\x1b[31mred\x1b[0m")])
    assert "<code>done\nred</code>" in html
    assert html.count("cell-output-stdout") == 1


def test_stderr_is_apart_and_can_be_silenced():
    outputs = [stream("out\n"), stream("warned\n", "stderr")]
    _, html = page(cell([]), outputs)
    assert "cell-output-stderr" in html
    _, html = page(cell(["warning: false"]), outputs)
    assert "warned" not in html and "out" in html


def test_an_error_that_is_wanted_is_one_line():
    error = new_output("error", ename="ValueError", evalue="no", traceback=["long"])
    _, html = page(cell(["error: true"]), [error])
    assert "ValueError: no" in html and "long" not in html


def test_echo_include_and_output_are_obeyed():
    text = cell(["echo: false"], "one = 1") + cell(["include: false"], "two = 2")
    _, html = page(
        text + cell(["output: false"], "three"), [stream("a1")], [stream("beta")], [stream("c3")]
    )
    assert "one" not in html and "a1" in html
    assert "two" not in html and "beta" not in html
    assert "three" in html and "c3" not in html


def test_backticks_and_colons_in_code_and_output_stay_text():
    code = 'text = """\n```\n:::\n"""'
    _, html = page("````{python}\n" + code + "\n````\n\n## After\n", [stream("````\n:::\n")])
    assert '<h2 id="after">After</h2>' in html
    assert html.count(":::") == 2


def test_html_output_is_kept_without_pandas_own_style():
    table = "<style scoped>td {}</style>\n<table class='dataframe'><td>1</td></table>"
    _, html = page(cell([]), [data(text_html=table, text_plain="1")])
    assert "<table class='dataframe'><td>1</td></table>" in html and "style" not in html


def test_only_the_first_picture_of_a_cell_has_its_id_and_caption():
    text = cell(["label: fig-a", "fig-cap: A dot.", 'fig-alt: A "black" dot']) + "\nSee @fig-a.\n"
    assembly, html = page(text, [data(image_png=DOT), data(image_png=DOT)])
    assert list(assembly.pictures) == ["a_files/fig-a-1.png", "a_files/fig-a-2.png"]
    assert assembly.pictures["a_files/fig-a-1.png"] == b"dot"
    assert html.count('id="fig-a"') == 1 and html.count("A dot.") == 1
    assert html.count('alt="A black dot"') == 2
    assert '<a href="#fig-a">Figure 1</a>' in html


def test_a_cell_in_a_list_stays_in_the_list():
    _, html = page("1. one\n\n   ```{python}\n   x = 1\n   ```\n\n2. two\n", [stream("out")])
    assert html.count("<ol") == 1 and html.index("out") < html.index("two")


def test_a_callout_may_span_cells():
    _, html = page("::: {.callout-note}\nbefore\n\n" + cell([]) + "\ninside\n:::\n\nafter\n", [])
    body = html.split('class="callout-body"')[1]
    assert "<p>inside</p>\n</div>\n</div>\n<p>after</p>" in body


def test_chinese_lines_are_joined_without_a_space_and_rules_are_not_headers():
    _, html = page("第一行\n第二行\n\n---\n\ntitle: text\n\n---\n")
    assert "第一行第二行" in html and html.count("<hr") == 2 and "title: text" in html
