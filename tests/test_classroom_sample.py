"""`make course`: a pass, failures and waiting in one class; a second run only looks."""

import pytest
from classroom_kit import UNIT, fixed_figures

from autograder import sample_class
from autograder.__main__ import main
from autograder.checks import figures

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


@pytest.fixture
def sample(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_measure", fixed_figures)
    monkeypatch.setattr(figures, "CACHE", tmp_path / "figures.json")
    monkeypatch.setattr(sample_class, "CLASSROOM", tmp_path / "sample")
    # The site has its own tests, and executing the lesson takes a minute.
    monkeypatch.setattr(sample_class.site, "build", lambda *args, **options: 0)
    # Other units are graded in the same way; their live checks run the model.
    monkeypatch.setattr(sample_class.assignment, "units", lambda: [UNIT])
    monkeypatch.delenv("COURSE_LANG", raising=False)
    return tmp_path / "sample"


def test_the_sample_class_from_release_to_report(sample, capsys):
    assert main(["course"]) == 0
    first = capsys.readouterr().out
    rows = {line.split()[1]: line for line in first.splitlines() if "  " in line and UNIT in line}
    said = {name: line.split(maxsplit=3)[2:] for name, line in rows.items()}
    assert {name: words[0] for name, words in said.items() if name in sample_class.STUDENTS} == {
        "ada-right": "pass",
        "bo-right-other-style": "waiting",
        "cleo-partly-right": "fail",
        "dan-untouched": "fail",
        "vera-vetoed": "fail",
    }
    assert said["cleo-partly-right"][1].endswith("boundary failed")
    assert said["vera-vetoed"][1].endswith("q1 vetoed (peak_as_general)")
    assert said["eve-not-a-notebook"][0] == "waiting"
    page = sample / "feedback/ada-right" / UNIT / "lesson08.html"
    assert "Sample grade, entered by" in page.read_text()
    assert main(["course"]) == 0
    second = capsys.readouterr().out
    assert second.count("(up to date)") == len(sample_class.STUDENTS) + 1
    assert second.splitlines()[-20:] == first.splitlines()[-20:]


def test_course_takes_no_options(capsys):
    assert main(["course", "--fast"]) == 2
    assert "course takes no options" in capsys.readouterr().err
