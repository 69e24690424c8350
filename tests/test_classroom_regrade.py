"""Grading again: verdicts become grades by our rule alone, and a person's marks survive."""

import json
import os
import re
import shutil

import nbformat
import pytest
from classroom_kit import UNIT, fill, fixed_figures, hand_in
from nbgrader.apps import NbGraderAPI
from traitlets.config.loader import PyFileConfigLoader

from autograder import classroom, parallel, submissions
from autograder.checks import figures
from autograder.outcomes import outcomes
from autograder.report import write_report
from autograder.verdict import Judgement, Verdict

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
POINTS = {"main": 2.0, "boundary": 1.0, "source_map": 1.0, "live": 0.0, "q1": 2, "q2": 2, "q3": 2}
WAITS = (None, None, True)


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("term")
        patch.setattr(figures, "_measure", fixed_figures)
        patch.setattr(figures, "CACHE", folder / "figures.json")
        made = classroom.create_classroom(folder / "class", "en")
        classroom.release(made, UNIT)
        yield made


@pytest.fixture
def judged(room, monkeypatch):
    """Grade a student with given verdict names, without running anything; default: all pass."""

    def run(student, **names):
        verdicts = []
        for check_id, points in POINTS.items():
            name = names.get(check_id, "not_measured" if check_id[0] == "q" else "pass")
            earned = points if name == "pass" else 0.0
            verdicts.append(Verdict(check_id, earned, points, name, "because"))
        judgement = Judgement(UNIT, "none", tuple(verdicts))
        monkeypatch.setattr(parallel, "judge", lambda *_, **__: judgement)
        (status,) = submissions.autograde(room, UNIT, student, force=True)
        assert status.state == "graded", status.messages
        return marks(room, student)

    return run


def marks(room, student):
    with room.api.gradebook as gradebook:
        found = gradebook.find_submission_notebook(UNIT, UNIT, student).grades
        return {g.name: (g.auto_score, g.manual_score, g.needs_manual_grade) for g in found}


def decide(room, student, comment="", **scores):
    """Enter grades as formgrader does."""
    with room.api.gradebook as gradebook:
        for name, score in scores.items():
            grade = gradebook.find_grade(name, UNIT, UNIT, student)
            grade.manual_score, grade.needs_manual_grade = score, False
            if comment:
                gradebook.find_comment(name, UNIT, UNIT, student).manual_comment = comment
        gradebook.db.commit()


def line_of(room, student):
    return next(line for line in outcomes(room, UNIT) if line.student == student)


def test_each_verdict_becomes_its_grade(room, judged):
    hand_in(room, "amy", fill)
    found = judged(
        "amy", main="fail", boundary="invalid", source_map="inconclusive", live="not_measured"
    )
    assert found["main"] == found["boundary"] == (0.0, None, False)
    assert found["source_map"] == found["live"] == found["q1"] == WAITS
    assert line_of(room, "amy").why[:2] == ["main failed", "boundary invalid"]


def test_a_check_without_a_verdict_is_never_full(room, judged, monkeypatch):
    hand_in(room, "ben", fill)
    judged("ben")
    empty = Judgement(UNIT, "none", ())
    monkeypatch.setattr(parallel, "judge", lambda *_, **__: empty)
    submissions.autograde(room, UNIT, "ben", force=True)
    assert set(marks(room, "ben").values()) == {WAITS}


def test_points_that_disagree_with_the_lesson_stop_that_submission(room, judged, monkeypatch):
    hand_in(room, "cho", fill)
    wrong = Judgement(UNIT, "none", (Verdict("main", 3.0, 3.0, "pass", "because"),))
    monkeypatch.setattr(parallel, "judge", lambda *_, **__: wrong)
    (status,) = submissions.autograde(room, UNIT, "cho", force=True)
    assert (
        status.state == "failed" and "main: worth 3 as a check, 2 as a cell" in status.messages[0]
    )
    assert line_of(room, "cho").result == "waiting"


def test_a_grader_that_crashes_is_named_and_tried_again(room, judged, monkeypatch):
    hand_in(room, "dee", fill)

    def crash(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(parallel, "judge", crash)
    (status,) = submissions.autograde(room, UNIT, "dee")
    assert status.state == "failed" and "OSError: disk full" in status.messages[0]
    monkeypatch.undo()
    judged("dee")
    assert line_of(room, "dee").why == ["q1, q2, q3 ungraded"]


def test_a_name_that_is_not_utf8_stops_nobody(room, judged, capsys):
    """Windows zips hold such names; a file named so is found, a student named so is pointed out."""
    path = hand_in(room, "abe", fill)
    os.rename(path, os.fsencode(path.parent) + b"/L\xf6sung.ipynb")
    assert judged("abe") == judged("abe")
    (message,) = submissions.read_status(room.path, UNIT, "abe").messages
    assert message.startswith("L?sung.ipynb was taken for lesson08.ipynb")
    nameless = os.fsencode(room.path / "submitted") + b"/b\xf6b"
    os.makedirs(nameless + b"/lesson08")
    try:
        assert "abe" in room.students(UNIT) and not any("\udcf6" in s for s in room.students(UNIT))
        assert "submitted/'b\\udcf6b': not UTF-8" in capsys.readouterr().out
    finally:
        shutil.rmtree(nameless)


@pytest.mark.parametrize("name", ["lesson08.ipynb.txt", "Lesson08.IPYNB", "lesson08.json"])
def test_a_notebook_that_a_browser_renamed_is_found(tmp_path, name):
    folder = tmp_path / "amy" / UNIT
    folder.mkdir(parents=True)
    (folder / "notes.txt").touch()
    (folder / name).touch()
    path, (message,) = submissions.find_notebook(folder, UNIT)
    assert path.name == name and message.startswith(f"{name} was taken for lesson08.ipynb")
    (folder / "mine.ipynb").touch()
    assert submissions.find_notebook(folder, UNIT)[0].name == "mine.ipynb"


def test_a_lesson_that_changed_after_its_release_is_said(room, judged, capsys):
    hand_in(room, "ana", fill)
    judged("ana")
    assert "WARNING" not in capsys.readouterr().out
    source = room.notebook("source", UNIT)
    text = source.read_text()
    try:
        source.write_text(text.replace("speculative", "optimistic", 1))
        judged("ana")
    finally:
        source.write_text(text)
    assert "the lesson has changed since it was released" in capsys.readouterr().out


def test_whatever_stops_one_at_the_door_is_named_and_the_next_is_graded(room, judged, monkeypatch):
    for student in ("ada", "amos"):
        hand_in(room, student, fill)
        judged(student)
    real = submissions.stage

    def stage(classroom, unit, student):
        if student == "ada":
            raise RecursionError("too deep")
        return real(classroom, unit, student)

    monkeypatch.setattr(submissions, "stage", stage)
    found = {s.student: s for s in submissions.autograde(room, UNIT, force=True)}
    assert found["ada"].state == "failed" and "too deep" in found["ada"].messages[0]
    assert found["amos"].state == "graded"


def test_manual_grades_survive_and_are_not_asked_for_again(room, judged):
    hand_in(room, "eli", fill)
    judged("eli")
    decide(room, "eli", q1=2.0, q2=1.5, q3=2.0)
    before = marks(room, "eli")
    assert judged("eli") == before
    assert judged("eli") == before
    assert line_of(room, "eli").result == "pass"
    assert before["q2"] == (None, 1.5, False)


def test_a_failed_attempt_loses_no_decision(room, judged, monkeypatch):
    hand_in(room, "eva", fill)
    judged("eva")
    decide(room, "eva", q1=2.0, q2=1.5, q3=2.0)
    before = marks(room, "eva")
    with monkeypatch.context() as patch:
        patch.setattr(parallel, "judge", lambda *_, **__: 1 / 0)
        (status,) = submissions.autograde(room, UNIT, "eva", force=True)
    assert status.state == "failed" and "ZeroDivisionError" in status.messages[0]
    assert judged("eva") == before


def test_a_changed_answer_is_asked_for_again_and_only_that(room, judged):
    hand_in(room, "fay", fill)
    judged("fay")
    decide(room, "fay", q1=2.0, q2=2.0, q3=2.0)

    def rewrite(nb, cells):
        cells["q2"].source = "Another thought."

    hand_in(room, "fay", fill, rewrite)
    for _ in range(2):
        found = judged("fay")
        assert found["q1"] == found["q3"] == (None, 2.0, False)
        assert found["q2"] == (None, 2.0, True)
    assert line_of(room, "fay").why == ["q2 changed after grading"]


def test_a_person_settles_what_the_machine_could_not(room, judged):
    hand_in(room, "gus", fill)
    judged("gus", live="not_measured", boundary="inconclusive")
    decide(room, "gus", q1=2.0, q2=2.0, q3=2.0)
    assert line_of(room, "gus").why == ["boundary inconclusive", "live not measured"]
    decide(room, "gus", live=0.0, boundary=1.0)
    assert line_of(room, "gus").result == "pass"
    assert judged("gus", live="not_measured", boundary="inconclusive")["boundary"][2] is False
    # Now the machine did measure, and disagrees: a person looks again.
    assert judged("gus", live="not_measured", boundary="fail")["boundary"] == (0.0, 1.0, True)


def test_feedback_shows_an_open_score_as_neither_zero_nor_full(room, judged):
    hand_in(room, "gil", fill)
    judged("gil", live="not_measured", boundary="inconclusive")
    submissions.write_feedback(room, UNIT)
    page = room.notebook("feedback", UNIT, "gil").with_suffix(".html").read_text()
    scores = dict(re.findall(r'<a href="#(\w+)">[^<]+</a> \(Score: (.+?)\)', page))
    assert scores["main"] == "2.0 / 2.0"
    assert scores["boundary"] == "– / 1.0" and scores["live"] == "– / 0.0"
    assert scores["q1"] == "– / 2.0" and "nan" not in scores.values()
    assert len(re.findall(r"Score: – / 1\.0", page)) == 2  # in the list and at the cell


def test_a_veto_in_a_comment_fails_and_is_spelled_out(room, judged):
    hand_in(room, "hua", fill)
    judged("hua")
    decide(room, "hua", "VETO peak_as_general", q1=2.0)
    decide(room, "hua", q2=2.0, q3=2.0)
    assert line_of(room, "hua").why == ["q1 vetoed (peak_as_general)"]
    submissions.write_feedback(room, UNIT)
    text = room.notebook("feedback", UNIT, "hua").with_suffix(".html").read_text()
    assert "A paper's peak is written as a general production result." in text.replace("’", "'")


def test_a_submission_that_becomes_unreadable_waits(room, judged):
    path = hand_in(room, "ivy", fill)
    judged("ivy")
    path.write_text("gone")
    submissions.autograde(room, UNIT, "ivy")
    assert line_of(room, "ivy").why[0].startswith("unreadable: lesson08.ipynb: the file is not")


def test_stock_nbgrader_in_the_folder_uses_our_steps(room, monkeypatch):
    config = PyFileConfigLoader("nbgrader_config.py", str(room.path)).load_config()
    api = NbGraderAPI(config=config)
    assert api.coursedir.submitted_directory == "submitted"

    def twice(nb, cells):
        nb.cells.append(nbformat.from_dict(dict(cells["main"])))

    hand_in(room, "jan", fill, twice)
    result = api.autograde(UNIT, "jan")
    assert result["success"], result
    found = marks(room, "jan")
    assert found["main"] == (2.0, None, False) and found["q1"] == WAITS
    decide(room, "jan", q1=2.0)
    assert api.autograde(UNIT, "jan")["success"]
    assert marks(room, "jan")["q1"] == (None, 2.0, False)
    verdicts = room.notebook("autograded", UNIT, "jan").with_name("verdicts.json")
    assert json.loads(verdicts.read_text())["unit"] == UNIT


def test_a_lesson_that_gained_a_cell_cannot_be_released_to_a_class_that_handed_in(
    room, judged, monkeypatch
):
    hand_in(room, "kim", fill)
    judged("kim")
    real = classroom.assignment.build_source

    def longer(unit, lang):
        nb = real(unit, lang)
        nb.cells.pop(1)
        return nb

    monkeypatch.setattr(classroom.assignment, "build_source", longer)
    with pytest.raises(classroom.ClassroomError, match="gained or lost cells"):
        classroom.release(room, UNIT)
    monkeypatch.undo()
    assert classroom.release(room, UNIT)


def test_the_report_is_written_as_csv_and_html(room, judged):
    hand_in(room, "lea", fill)
    judged("lea")
    (room.path / "submitted/max" / UNIT).mkdir(parents=True)
    with room.api.gradebook as gradebook:
        gradebook.update_or_create_student("nia")
    write_report(room)
    rows = (room.path / "report.csv").read_text().splitlines()
    assert rows[0].startswith("unit,student,result,points,main,boundary,source_map,live,q1,q2,q3")
    by_name = {row.split(",")[1]: row for row in rows[1:]}
    assert "waiting,4.0,2.0,1.0,1.0,0.0,–,–,–" in by_name["lea"]
    assert "not autograded" in by_name["max"] and "not submitted" in by_name["nia"]
    assert "<td>lea</td>" in (room.path / "report.html").read_text()
