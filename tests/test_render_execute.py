"""Cells run once, in order, with the answers filled in; what fails is named in one line."""

import pytest

from course.render import execute as module
from course.render.execute import execute, filled_in, outputs_key
from course.render.qmd import QmdError, parse_text

TEXT = """\
```{python}
#| label: task
#| course_role: exercise
x = ______
```

```{python}
#| label: fails
#| error: true
1 / 0
```

```{python}
#| label: show
print(x + 1)
```
"""


def lesson(text=TEXT):
    return parse_text(text, "lessons/lesson01_a.qmd")


def test_cells_run_with_answers_once_and_the_outputs_are_kept(tmp_path, monkeypatch):
    first = execute(lesson(), {"task": "x = 41"}, tmp_path, progress=False)
    assert [len(outputs) for outputs in first] == [0, 1, 1]
    assert first[1][0].ename == "ZeroDivisionError"
    assert first[2][0].text == "42\n"
    monkeypatch.setattr(module, "NotebookClient", None)  # a second run would fail
    assert execute(lesson("prose\n\n" + TEXT), {"task": "x = 41"}, tmp_path) == first


def test_a_failing_cell_is_named_with_file_line_and_label(tmp_path):
    bad = "```{python}\n#| label: bad\nraise OSError('no\\nx')\n```\n"
    text = f"```{{python}}\n#| label: ok\n1\n```\n\n{bad}"
    with pytest.raises(QmdError) as error:
        execute(lesson(text), {}, tmp_path, progress=False)
    assert str(error.value) == "lessons/lesson01_a.qmd:6: cell 'bad' raised OSError: no"
    assert not list(tmp_path.rglob("*.json"))


def test_an_exercise_without_an_answer_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(QmdError, match="lesson01_a.qmd:1: exercise 'task' has no answer"):
        execute(lesson(), {}, tmp_path)


def test_the_key_follows_code_answers_engine_and_versions(tmp_path, monkeypatch):
    answers = {"task": "x = 41"}
    keys = [outputs_key(lesson(), answers, tmp_path)]
    keys.append(outputs_key(lesson(), {"task": "x = 40"}, tmp_path))
    keys.append(outputs_key(lesson(TEXT + "```{python}\n1\n```\n"), answers, tmp_path))
    (tmp_path / "lessons/lib").mkdir(parents=True)
    (tmp_path / "lessons/lib/engine.py").write_text("SPEED = 1\n")
    keys.append(outputs_key(lesson(), answers, tmp_path))
    monkeypatch.setattr(module, "_version", lambda package: "other")
    keys.append(outputs_key(lesson(), answers, tmp_path))
    assert len(set(keys)) == len(keys)


def test_only_a_page_that_reads_the_source_map_depends_on_it(tmp_path):
    reader = lesson("```{python}\nfrom course.render.source_map import load\n```\n")
    keys = [outputs_key(doc, {"task": "x = 41"}, tmp_path) for doc in (lesson(), reader)]
    (tmp_path / "course").mkdir()
    (tmp_path / "course/source_map.yml").write_text("concepts: []\n")
    after = [outputs_key(doc, {"task": "x = 41"}, tmp_path) for doc in (lesson(), reader)]
    assert after[0] == keys[0] and after[1] != keys[1]


def test_a_page_without_cells_starts_nothing(tmp_path):
    assert execute(lesson("prose"), {}, tmp_path) == []
    assert filled_in(lesson("prose"), {}) == []
