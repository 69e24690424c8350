"""Points for other systems: what is open is empty and said, never a number."""

import csv
import os

import pytest
from classroom_kit import UNIT, fill, fixed_figures, hand_in
from nbgrader.apps import ExportApp
from traitlets.config.loader import PyFileConfigLoader

from autograder import classroom, submissions
from autograder.__main__ import main
from autograder.checks import figures

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
NAMES = {"amy": ("Amy", "Zhou"), "ben": ("=HYPERLINK(1)", "Ng")}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """amy is done, ben waits, cat untouched, dan unreadable, eve handed in nothing."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("term")
        patch.setattr(figures, "_measure", fixed_figures)
        patch.setattr(figures, "CACHE", folder / "figures.json")
        patch.delenv("GRADER_SEED", raising=False)
        patch.setenv("CLASSROOM", str(folder / "class"))
        made = classroom.create_classroom(folder / "class", "en")
        classroom.release(made, UNIT)
        hand_in(made, "amy", fill)
        hand_in(made, "ben", fill)
        hand_in(made, "cat")
        hand_in(made, "dan").write_text("{ not json")
        submissions.autograde(made, UNIT)
        with made.api.gradebook as gradebook:
            for name, (first, last) in NAMES.items():
                gradebook.update_or_create_student(name, first_name=first, last_name=last)
            gradebook.update_or_create_student("eve")
            for name, score in {"q1": 2.0, "q2": 1.0, "q3": 2.0}.items():
                grade = gradebook.find_grade(name, UNIT, UNIT, "amy")
                grade.manual_score, grade.needs_manual_grade = score, False
            gradebook.db.commit()
        yield made


def read(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_nbgraders_columns_with_empty_cells_for_what_is_open(room, capsys):
    assert main(["export"]) == 0
    assert "5 grades, 3 of them empty" in capsys.readouterr().out
    rows = {row["student_id"]: row for row in read(room.path / "grades.csv")}
    scores = {name: (row["score"], row["result"]) for name, row in rows.items()}
    assert scores == {
        "amy": ("9.0", "pass"),
        "ben": ("", "waiting"),
        "cat": ("0.0", "fail"),
        "dan": ("", "waiting"),
        "eve": ("", "waiting"),
    }
    assert rows["ben"]["awaits"] == "q1, q2, q3 ungraded" and rows["ben"]["raw_score"] == ""
    assert rows["dan"]["awaits"].startswith("unreadable") and rows["eve"]["awaits"]
    assert rows["amy"]["awaits"] == "" and rows["amy"]["max_score"] == "10.0"


def test_no_name_becomes_a_formula(room):
    main(["export"])
    (row,) = [row for row in read(room.path / "grades.csv") if row["student_id"] == "ben"]
    assert row["first_name"] == "'=HYPERLINK(1)"


def test_canvas_columns(room):
    assert main(["export", UNIT, "--canvas"]) == 0
    top, *rows = read(room.path / "canvas.csv")
    assert (top["Student"], top[UNIT]) == ("    Points Possible", "10.0")
    by_name = {row["SIS Login ID"]: row for row in rows}
    assert list(top)[:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert by_name["amy"]["Student"] == "Zhou, Amy" and by_name["amy"][UNIT] == "9.0"
    assert by_name["ben"][UNIT] == "" and by_name["eve"]["Student"] == "eve"
    assert by_name["ben"]["Notes"] == "lesson08 awaits: q1, q2, q3 ungraded"


def test_stock_nbgrader_export_writes_the_same(room, tmp_path):
    main(["export"])
    config = PyFileConfigLoader("nbgrader_config.py", str(room.path)).load_config()
    here = os.getcwd()
    app = ExportApp(config=config)
    os.chdir(room.path)
    try:
        app.initialize(["--to", str(tmp_path / "stock.csv")])
        app.start()
    finally:
        os.chdir(here)
    assert read(tmp_path / "stock.csv") == read(room.path / "grades.csv")


def test_an_unknown_unit_is_one_line(room, capsys):
    assert main(["export", "lesson77"]) == 2
    assert "no unit 'lesson77'" in capsys.readouterr().err
