"""Points for other systems; what nobody has decided is an empty cell and a word, never a number.

python -m autograder export             grades.csv: nbgrader's columns, result, awaits
python -m autograder export --canvas    canvas.csv: the columns of a Canvas gradebook
"""

import argparse
import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry, Student
from nbgrader.plugins import ExportPlugin

from autograder.classroom import Classroom, chosen_units, open_classroom, shown
from autograder.outcomes import outcomes
from autograder.passrule import Outcome
from autograder.preprocessors import course_directory
from autograder.seed import classroom_dir

COLUMNS = [
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score", "result", "awaits"),
]
CANVAS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
CANVAS_MAX = "    Points Possible"  # so spelled, with its blanks, in Canvas's own files
# A spreadsheet takes a cell that begins so for a formula, and names come from students.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class CourseExport(ExportPlugin):
    """What `nbgrader export` writes in our classrooms: the same as our verb."""

    def export(self, gradebook: Gradebook) -> None:
        """Write the CSV to `to`, by default grades.csv where nbgrader was started."""
        classroom = open_classroom(Path(course_directory(self).root))
        rows = [
            row
            for row in grades(classroom, gradebook, classroom.units())
            if row["assignment"] in (self.assignment or [row["assignment"]])
            and row["student_id"] in (self.student or [row["student_id"]])
        ]
        write_csv(Path(self.to or "grades.csv"), COLUMNS, rows)


def grades(classroom: Classroom, gradebook: Gradebook, units: list[str]) -> list[dict[str, Any]]:
    """One row for each unit and student, with nbgrader's columns."""
    return [grade(gradebook, unit, line) for unit in units for line in outcomes(classroom, unit)]


def grade(gradebook: Gradebook, unit: str, line: Outcome) -> dict[str, Any]:
    """A row; its scores are empty until every mark is decided."""
    assignment = gradebook.find_assignment(unit)
    row: dict[str, Any] = {"assignment": unit, "student_id": line.student}
    row |= {"duedate": assignment.duedate, "max_score": assignment.max_score}
    row |= {"result": line.result, "awaits": "; ".join(line.awaits)}
    person = student(gradebook, line.student)
    row |= {name: getattr(person, name, None) for name in ("last_name", "first_name", "email")}
    try:
        submission = gradebook.find_submission(unit, line.student)
    except MissingEntry:
        return row
    row["timestamp"] = submission.timestamp
    if not line.awaits:
        penalty = submission.late_submission_penalty or 0.0
        row |= {"raw_score": line.points, "late_submission_penalty": penalty}
        row["score"] = max(0.0, line.points - penalty)
    return row


def canvas(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows for Canvas: one a student, one column a unit, Notes for what is awaited."""
    table: dict[str, dict[str, Any]] = {}
    for row in rows:
        name, unit = row["student_id"], row["assignment"]
        who = ", ".join(filter(None, (row["last_name"], row["first_name"]))) or name
        line = table.setdefault(name, {"Student": who, "SIS Login ID": name})
        line[unit] = row.get("score")
        if row["awaits"]:
            note = f"{unit} awaits: {row['awaits']}"
            line["Notes"] = "; ".join(filter(None, (line.get("Notes"), note)))
    top = {"Student": CANVAS_MAX} | {row["assignment"]: row["max_score"] for row in rows}
    return [top, *table.values()]


def student(gradebook: Gradebook, name: str) -> Student | None:
    """The gradebook's entry of a student; someone who was never graded has none."""
    try:
        return gradebook.find_student(name)
    except MissingEntry:
        return None


def write_csv(path: Path, columns: list[str], rows: Iterable[dict[str, Any]]) -> None:
    """A CSV for spreadsheets: no cell of it acts as a formula."""
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for row in rows:
            writer.writerow({name: harmless(value) for name, value in row.items()})


def harmless(value: Any) -> Any:
    """A text that would be a formula, quoted."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def main(argv: list[str]) -> int:
    """The verb `export`."""
    parser = argparse.ArgumentParser(prog="python -m autograder export")
    parser.add_argument("unit", nargs="?", help="such as lesson08; default: all")
    parser.add_argument("--canvas", action="store_true", help="the columns of a Canvas gradebook")
    parser.add_argument("--to", type=Path, help="the file; default: grades.csv or canvas.csv")
    args = parser.parse_args(argv)
    classroom = open_classroom(classroom_dir())
    units = chosen_units(classroom.units(), args.unit, f"{classroom.path}/release")
    path = args.to or classroom.path / ("canvas.csv" if args.canvas else "grades.csv")
    with classroom.api.gradebook as gradebook:
        rows = grades(classroom, gradebook, units)
    num_open = sum(bool(row["awaits"]) for row in rows)
    if args.canvas:
        write_csv(path, [*CANVAS, *units, "Notes"], canvas(rows))
    else:
        write_csv(path, COLUMNS, rows)
    print(f"{shown(path)}: {len(rows)} grades, {num_open} of them empty: not decided yet")
    return 0
