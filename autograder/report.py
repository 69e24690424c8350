"""Who passed, who failed and why, and who waits for what: the pass rule of each unit's rubric.

python -m autograder report     prints the table, writes report.csv and report.html
"""

import argparse
import json
from typing import Any

import pandas as pd
from nbgrader.api import Gradebook, MissingEntry

from autograder.classroom import Classroom, chosen_units, open_classroom, shown
from autograder.passrule import Mark, Outcome, decide
from autograder.preprocessors import VERDICTS_FILE
from autograder.rubric import read_rubric
from autograder.seed import classroom_dir
from autograder.status import read_status

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Class report</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #222; }}
table {{ border-collapse: collapse; margin-bottom: 2rem; }}
th, td {{ padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: left; }}
td.num {{ text-align: right; }}
</style>
<h1>Class report</h1>
{tables}
<p>A check that was not measured, or was inconclusive, is settled in formgrader by entering its
score (0 for one worth 0 points), or by grading again on a machine that can measure it.</p>
</html>
"""


def read_marks(gradebook: Gradebook, unit: str, student: str, verdicts: dict) -> list[Mark]:
    """The marks of one submission, in the order of the checks, then of the notebook."""
    submission = gradebook.find_submission_notebook(unit, unit, student)
    comments = {comment.name: comment.comment or "" for comment in submission.comments}
    names = {check["id"]: check["verdict"] for check in verdicts.get("checks", [])}
    order = list(names)
    marks = [
        Mark(
            grade.name,
            grade.max_score,
            None if grade.needs_manual_grade else grade.score,
            names.get(grade.name, ""),
            grade.manual_score is not None,
            comments.get(grade.name, ""),
        )
        for grade in submission.grades
    ]
    known = [mark for mark in marks if mark.id in names]
    return sorted(known, key=lambda mark: order.index(mark.id)) + [
        mark for mark in marks if mark.id not in names
    ]


def outcome(classroom: Classroom, gradebook: Gradebook, unit: str, student: str) -> Outcome:
    """The line of one student, whatever state the submission is in."""
    status = read_status(classroom.path, unit, student)
    if status and status.state != "graded":
        return Outcome(student, "waiting", [f"{status.state}: {'; '.join(status.messages)}"])
    if not (classroom.path / "submitted" / student / unit).is_dir():
        return Outcome(student, "waiting", ["not submitted"])
    file = classroom.notebook("autograded", unit, student).parent / VERDICTS_FILE
    if not file.exists():
        return Outcome(student, "waiting", ["not autograded"])
    verdicts = json.loads(file.read_text(encoding="utf-8"))
    try:
        marks = read_marks(gradebook, unit, student, verdicts)
    except MissingEntry:
        return Outcome(student, "waiting", ["not in the gradebook; autograde again"])
    return decide(student, marks, read_rubric(unit), verdicts["isolation"])


def outcomes(classroom: Classroom, unit: str) -> list[Outcome]:
    """Every student the classroom knows of, sorted by name."""
    with classroom.api.gradebook as gradebook:
        students = {student.id for student in gradebook.students} | set(classroom.students(unit))
        return [outcome(classroom, gradebook, unit, student) for student in sorted(students)]


def table(unit: str, lines: list[Outcome]) -> pd.DataFrame:
    """The lines as a table: one row a student, one column a graded cell; open marks are `–`."""
    rows = []
    for line in lines:
        row: dict[str, Any] = {"unit": unit, "student": line.student, "result": line.result}
        row["points"] = sum(mark.score or 0 for mark in line.marks) if line.marks else "–"
        row |= {mark.id: "–" if mark.score is None else mark.score for mark in line.marks}
        row |= {"why": "; ".join(line.why), "isolation": line.isolation}
        rows.append(row)
    frame = pd.DataFrame(rows, dtype=object).fillna("–")
    last = ["why", "isolation"]
    return frame[[name for name in frame.columns if name not in last] + last]


def write_report(classroom: Classroom, unit: str | None = None) -> pd.DataFrame:
    """Write report.csv and report.html in the classroom and return the table of all units."""
    units = chosen_units(classroom.units(), unit, f"{classroom.path}/release")
    tables = {name: table(name, found) for name in units if (found := outcomes(classroom, name))}
    sections = [
        f"<h2>{name}</h2>\n{frame.drop(columns='unit').to_html(index=False, border=0)}"
        for name, frame in tables.items()
    ]
    (classroom.path / "report.html").write_text(
        PAGE.format(tables="\n".join(sections)), encoding="utf-8"
    )
    everything = pd.concat(tables.values()) if tables else pd.DataFrame()
    everything.to_csv(classroom.path / "report.csv", index=False)
    return everything


def main(argv: list[str]) -> int:
    """The verb `report`."""
    parser = argparse.ArgumentParser(prog="python -m autograder report")
    parser.add_argument("unit", nargs="?", help="such as lesson08; default: all")
    args = parser.parse_args(argv)
    classroom = open_classroom(classroom_dir())
    print_report(classroom, write_report(classroom, args.unit))
    return 0


def print_report(classroom: Classroom, everything: pd.DataFrame) -> None:
    """The table as text, and where the files are."""
    if everything.empty:
        print(f"nobody has handed in anything under {shown(classroom.path / 'submitted')}")
    else:
        print(as_text(everything.drop(columns="isolation")))
    print(f"\n{shown(classroom.path / 'report.csv')}\n{shown(classroom.path / 'report.html')}")


def as_text(frame: pd.DataFrame) -> str:
    """A table in columns, all flush left; the last may be of any length."""
    rows = [list(frame.columns)] + [[plain(value) for value in row] for row in frame.values]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    padded = [[*map(str.ljust, row, widths), row[-1]] for row in rows]
    return "\n".join("  ".join(row).rstrip() for row in padded)


def plain(value: object) -> str:
    """A cell of the table: 2.0 as 2."""
    return f"{value:g}" if isinstance(value, float) else str(value)
