"""Release, fill, autograde, feedback: a class in which nobody can harm the one graded last."""

import hashlib
import json
import re

import nbformat
import pytest
from classroom_kit import UNIT, cells_of, code_answers, fill, fixed_figures, hand_in, paste_twice
from nbconvert.filters import markdown2html

from autograder import assignment, classroom, rubric, submissions
from autograder.__main__ import main
from autograder.checks import figures

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
HONEST = "zoe-honest"
HOSTILE = """<script>alert('marks')</script> a < b, [a](javascript:alert(1)),
$\\href{javascript:1}{x}$

![missing](attachment:none.png) [ref][b] [good](https://example.org)

[b]: javascript:alert(2)
"""


def exits(nb, cells):
    cells["acceptance_cost_model"].source = "import os\nos._exit(0)\n"


def scripted(nb, cells):
    cells["q1"].source = HOSTILE


def tagged(nb, cells):
    fill(nb, cells)
    cells["main"].metadata["tags"] = ["skip-execution"]
    cells["acceptance_cost_model"].source = cells["acceptance_cost_model"].source.replace(
        "expected_accepted += survival", "expected_accepted += probability"
    )


def digest(folder):
    return {
        path.relative_to(folder): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """(classroom, statuses by student) after one run over a class with hostile neighbours."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("term")
        patch.setattr(figures, "_measure", fixed_figures)
        patch.setattr(figures, "CACHE", folder / "figures.json")
        patch.delenv("GRADER_SEED", raising=False)
        patch.setenv("CLASSROOM", str(folder / "class"))
        room = classroom.create_classroom(folder / "class", "en")
        assert classroom.release(room, UNIT)
        hand_in(room, "ann-twice", fill, paste_twice)
        broken = hand_in(room, "bob-broken", fill)
        broken.write_text("{ not json")
        hand_in(room, "cat-exits", fill, exits)
        hand_in(room, "dan-renamed", fill, name="my homework.ipynb")
        (room.path / "submitted/dan-renamed" / UNIT / "numpy.py").write_text("raise SystemExit")
        hand_in(room, "eve-untouched")
        hand_in(room, "hal-html", fill, scripted, tagged, scripted)
        (room.path / "submitted/ida-empty" / UNIT).mkdir(parents=True)
        hand_in(room, "mia o'neil", fill)
        hand_in(room, "nik[1]", fill)
        hand_in(room, HONEST, fill)
        before = digest(room.path / "submitted")
        statuses = {status.student: status for status in submissions.autograde(room, UNIT)}
        submissions.write_feedback(room, UNIT)
        assert digest(room.path / "submitted") == before
        yield room, statuses


def grades(room, student):
    with room.api.gradebook as gradebook:
        found = gradebook.find_submission_notebook(UNIT, UNIT, student).grades
        return {g.name: (g.auto_score, g.manual_score, g.needs_manual_grade) for g in found}


def page(room, student):
    return room.notebook("feedback", UNIT, student).with_suffix(".html").read_text()


def test_nbgrader_releases_what_build_release_says(graded):
    room, _ = graded
    released = nbformat.read(room.notebook("release", UNIT), as_version=4)
    expected = assignment.build_release(UNIT, "en")
    assert len(released.cells) == len(expected.cells)
    for cell, wanted in zip(released.cells, expected.cells, strict=True):
        assert cell == wanted, cell.id
    assert released.metadata["course"] == expected.metadata["course"]


def test_the_honest_student_sorted_last_has_every_code_point(graded):
    room, statuses = graded
    assert statuses[HONEST].state == "graded" and statuses[HONEST].messages == []
    marks = grades(room, HONEST)
    assert {name: marks[name][0] for name in ("main", "boundary", "source_map", "live")} == {
        "main": 2.0,
        "boundary": 1.0,
        "source_map": 1.0,
        "live": 0.0,
    }
    assert all(marks[name] == (None, None, True) for name in ("q1", "q2", "q3"))


@pytest.mark.parametrize("student", ["ann-twice", "dan-renamed", "mia o'neil"])
def test_an_accident_costs_nothing(graded, student):
    room, statuses = graded
    assert statuses[student].state == "graded"
    assert grades(room, student) == grades(room, HONEST)


def test_a_file_of_another_name_is_found_and_said(graded):
    room, statuses = graded
    assert "my homework.ipynb was taken for lesson08.ipynb" in statuses["dan-renamed"].messages[0]
    assert "my homework.ipynb" in page(room, "dan-renamed")
    kept = {path.name for path in (room.path / "autograded/dan-renamed" / UNIT).iterdir()}
    assert kept == {"lesson08.ipynb", "verdicts.json"}


@pytest.mark.parametrize(
    ("student", "words"),
    [
        ("bob-broken", "not a notebook"),
        ("ida-empty", "no notebook was handed"),
        ("nik[1]", "with *?[] in its name"),
    ],
)
def test_what_cannot_be_read_has_a_message_and_no_grade(graded, student, words):
    room, statuses = graded
    assert statuses[student].state == "unreadable"
    assert words in statuses[student].messages[0]
    assert words in page(room, student)
    assert not room.notebook("autograded", UNIT, student).exists()


def test_code_that_kills_its_process_earns_nothing_and_is_graded(graded):
    room, statuses = graded
    assert statuses["cat-exits"].state == "graded"
    marks = grades(room, "cat-exits")
    assert [marks[name][0] for name in ("main", "boundary", "live")] == [0, 0, 0]


def test_a_tag_that_skips_the_test_cell_earns_nothing(graded):
    room, statuses = graded
    assert grades(room, "hal-html")["main"][0] == 0
    assert any("skip-execution" in message for message in statuses["hal-html"].messages)


def test_an_untouched_notebook_is_zero_and_waits_for_nobody(graded):
    room, _ = graded
    assert set(grades(room, "eve-untouched").values()) == {(0.0, None, False)}


def test_verdicts_are_kept_beside_the_notebook_and_in_the_cells(graded):
    room, _ = graded
    notebook = room.notebook("autograded", UNIT, HONEST)
    kept = json.loads(notebook.with_name("verdicts.json").read_text())
    assert [check["id"] for check in kept["checks"]][:4] == [
        "main",
        "boundary",
        "source_map",
        "live",
    ]
    (output,) = cells_of(notebook)["main"].outputs
    assert output["data"]["text/plain"].startswith("pass (2 / 2): ")


def test_a_students_markup_does_nothing_in_the_graders_browser(graded):
    room, _ = graded
    source = cells_of(room.notebook("autograded", UNIT, "hal-html"))["q1"].source
    shown = markdown2html(source)
    assert "<script" not in shown and 'href="javascript' not in shown and "\\href" not in shown
    assert 'href="https://example.org"' in shown and "a &lt; b" in shown
    assert "alert('marks')" in page(room, "hal-html").replace("&#39;", "'")


def test_the_rubric_stands_behind_each_answer_for_the_instructor_alone(graded):
    room, _ = graded
    cells = nbformat.read(room.notebook("autograded", UNIT, HONEST), as_version=4).cells
    places = {cell.id: n for n, cell in enumerate(cells)}
    data = rubric.read_rubric(UNIT)
    for question in ("q1", "q2", "q3"):
        behind = cells[places[question] + 1]
        assert behind.metadata["course"]["instructor_only"] is True
        assert data["questions"][question]["criteria"]["chain"]["en"].strip() in behind.source
        assert "VETO peak_as_general" in behind.source
    assert "VETO" not in page(room, HONEST)


def test_feedback_says_what_waits_instead_of_showing_zero(graded):
    room, _ = graded
    text = page(room, HONEST)
    assert "This score is provisional" in text and "q1, q2, q3" in text
    assert text.count("Not graded yet: a person will read this answer.") == 3
    assert "pass</strong> (2 / 2)" in text
    assert "provisional" not in page(room, "eve-untouched")
    assert '<a href="#boundary">boundary</a>: <strong>fail</strong>' in page(room, "eve-untouched")


def secrets(room):
    """Everything a student must never be shown, as (what, text)."""
    for lang in assignment.LANGUAGES:
        shown = "\n".join(cell.source for cell in assignment.build_release(UNIT, lang).cells)
        answers = assignment.read_answers(assignment.answers_path(UNIT, lang))
        for label, (kind, text) in answers.items():
            sentences = re.split(r"(?<=[.。；;:：])\s|\n", text)
            for line in text.splitlines() if kind == "code" else sentences:
                if len(line.strip()) >= 12 and line.strip() not in shown:
                    yield f"{kind} {label}", line.strip()
    for name, question in rubric.read_rubric(UNIT)["questions"].items():
        for key, texts in question["criteria"].items():
            yield from ((f"rubric {name} {key}", text.strip()[:60]) for text in texts.values())
    yield "the seed", (room.path / "grader_seed").read_text().strip()


def plain(text):
    """A page's text without tags, entities and line breaks, so that markup hides nothing."""
    text = re.sub(r"<(style|script).*?</\1>", " ", text, flags=re.S)
    text = re.sub(r"<[^>]*>", "", text)
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'")):
        text = text.replace(entity, char)
    return re.sub(r"\s+", " ", text.replace("&amp;", "&"))


def test_no_answer_reaches_a_student(graded):
    room, _ = graded
    site = assignment.ROOT / "build/site"
    pages = {"release": room.notebook("release", UNIT).read_text()}
    pages["feedback"] = plain(page(room, "eve-untouched"))
    pages |= {str(path.relative_to(site)): plain(path.read_text()) for path in site.rglob("*.html")}
    pages |= {str(path.relative_to(site)): path.read_text() for path in site.rglob("*.js*")}
    hidden = list(secrets(room))
    assert len(hidden) > 100
    for what, text in hidden:
        quoted = json.dumps(text, ensure_ascii=False)[1:-1]
        for name, shown in pages.items():
            assert text not in shown and quoted not in shown, f"{what} in {name}: {text}"
        # Who wrote the solution's code is shown it back, but nothing else.
        assert what.startswith("code") or text not in plain(page(room, HONEST)), what


def test_the_leak_test_finds_what_it_looks_for(graded):
    room, _ = graded
    # The honest student wrote the solution's code, so it is in that student's own feedback.
    shown = plain(page(room, HONEST))
    hidden = [text for what, text in secrets(room) if what == "code acceptance_cost_model"]
    assert any(text in shown for text in hidden)
    assert "survival = survival * probability" in code_answers()["acceptance_cost_model"]


def test_a_second_run_grades_nothing_again(graded, capsys):
    room, statuses = graded
    stamp = room.notebook("autograded", UNIT, HONEST).stat().st_mtime_ns
    again = {status.student: status for status in submissions.autograde(room, UNIT)}
    assert again == statuses
    assert capsys.readouterr().out.count("(up to date)") == len(statuses)
    assert room.notebook("autograded", UNIT, HONEST).stat().st_mtime_ns == stamp


def test_an_attempt_that_was_killed_is_made_again(graded):
    room, _ = graded
    room.notebook("autograded", UNIT, HONEST).with_name("verdicts.json").unlink()
    submissions.autograde(room, UNIT, HONEST)
    assert room.notebook("autograded", UNIT, HONEST).with_name("verdicts.json").exists()
    assert grades(room, HONEST)["main"] == (2.0, None, False)


def test_a_chinese_classroom_speaks_chinese(graded):
    room, _ = graded
    chinese = classroom.create_classroom(room.path.with_name("zh"), "zh")
    classroom.release(chinese, UNIT)
    hand_in(chinese, "li", fill)
    (status,) = submissions.autograde(chinese, UNIT)
    submissions.write_feedback(chinese, UNIT)
    assert status.state == "graded" and grades(chinese, "li")["main"] == (2.0, None, False)
    assert "尚未评分" in page(chinese, "li")
    cells = nbformat.read(chinese.notebook("autograded", UNIT, "li"), as_version=4).cells
    hidden = [cell.source for cell in cells if "instructor_only" in cell.metadata.get("course", {})]
    assert len(hidden) == 3 and all("参考答案" in text for text in hidden)


@pytest.mark.parametrize(
    ("argv", "lang", "words"),
    [
        (["release"], "zh", "is a classroom in 'en'; for 'zh' make another one"),
        (["release", "lesson77"], "", "no unit 'lesson77' in lessons/"),
        (["autograde", "--student", "nobody"], "", "'nobody' has handed in nothing for lesson08"),
        (["feedback", "lesson77"], "", "no unit 'lesson77'"),
        (["paint"], "", "unknown verb 'paint'"),
    ],
)
def test_mistakes_are_one_line_that_says_what_to_do(graded, capsys, monkeypatch, argv, lang, words):
    monkeypatch.setenv("COURSE_LANG", lang)
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_verbs_without_a_classroom_say_how_to_make_one(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CLASSROOM", str(tmp_path))
    assert main(["report"]) == 2
    assert "run: make release" in capsys.readouterr().err
