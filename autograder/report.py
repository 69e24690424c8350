"""Who passed, who failed and why, and who waits for what: the pass rule of each unit's rubric.

python -m autograder report     prints the table, writes report.csv and report.html
"""

import argparse
from collections import Counter
from typing import Any

import pandas as pd

from autograder import classview
from autograder.classroom import Classroom, chosen_units, open_classroom, shown
from autograder.export import harmless
from autograder.outcomes import outcomes
from autograder.passrule import Outcome
from autograder.seed import classroom_dir

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Class report</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #222; }}
table {{ border-collapse: collapse; margin-bottom: 2rem; }}
th, td {{ padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: left; }}
figure {{ margin: 0 0 1rem; }}
svg {{ max-width: 100%; height: auto; }}
</style>
<h1>Class report</h1>
{sections}
<p>A check that was not measured, or was inconclusive, is settled in formgrader by entering its
score (0 for one worth 0 points), or by grading again on a machine that can measure it.</p>
</html>
"""


def table(unit: str, lines: list[Outcome]) -> pd.DataFrame:
    """The lines as a table: one row a student, one column a graded cell; open marks are `–`."""
    rows = []
    for line in lines:
        row: dict[str, Any] = {"unit": unit, "student": line.student, "result": line.result}
        row["points"] = line.points if line.marks else "–"
        row |= {mark.id: "–" if mark.score is None else mark.score for mark in line.marks}
        row |= {"why": "; ".join(line.why), "isolation": line.isolation, "seed": line.seed or "–"}
        rows.append(row)
    frame = pd.DataFrame(rows, dtype=object).fillna("–")
    return whole(frame)


def whole(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with what is common to all units first and last; a unit's missing cells are `–`."""
    first, last = ["unit", "student", "result", "points"], ["why", "isolation", "seed"]
    marks = [name for name in frame.columns if name not in first + last]
    return frame[first + marks + last].fillna("–")


def section(unit: str, lines: list[Outcome], frame: pd.DataFrame) -> str:
    """One unit of report.html: the class as a whole, then each student."""
    parts = [f"<h2>{unit}</h2>", seed_note(lines)]
    counts = classview.distribution(lines)
    if len(counts):
        totals = [line.points for line in lines if line.marks and not line.awaits]
        max_total = max(sum(mark.max for mark in line.marks) for line in lines)
        picture = classview.plot(counts, totals, max_total)
        caption = "How each check went, and the points of those who wait for nothing."
        parts.append(f"<figure>{picture}<figcaption>{caption}</figcaption></figure>")
    parts += ["<h3>Commonest failures by hint</h3>", as_html(classview.by_hint(lines))]
    parts += ["<h3>Commonest failures by reason</h3>", as_html(classview.failures(lines))]
    parts += ["<h3>Who waits for what</h3>", as_html(classview.waiting(lines))]
    parts += ["<h3>Students</h3>", as_html(frame.drop(columns="unit"))]
    return "\n".join(parts)


def as_html(frame: pd.DataFrame) -> str:
    """A table, escaped: reasons may quote a student."""
    return frame.to_html(index=False, border=0) if len(frame) else "<p>none</p>"


def seed_note(lines: list[Outcome]) -> str:
    """That grades rest on different secret seeds, or on a changed one; "" where neither is so."""
    seeds = Counter(line.seed for line in lines if line.seed)
    if set(seeds) <= {1}:
        return ""
    said = ", ".join(f"seed {number}: {count}" for number, count in sorted(seeds.items()))
    advice = " Run make autograde: all are graded with the present one." if len(seeds) > 1 else ""
    return f"<p><strong>The secret seed has changed.</strong> Students by seed: {said}.{advice}</p>"


def write_report(classroom: Classroom, unit: str | None = None) -> pd.DataFrame:
    """Write report.csv and report.html in the classroom and return the table of all units."""
    units = chosen_units(classroom.units(), unit, f"{classroom.path}/release")
    lines = {name: found for name in units if (found := outcomes(classroom, name))}
    tables = {name: table(name, found) for name, found in lines.items()}
    sections = [section(name, lines[name], frame) for name, frame in tables.items()]
    (classroom.path / "report.html").write_text(
        PAGE.format(sections="\n".join(sections)), encoding="utf-8"
    )
    everything = whole(pd.concat(tables.values())) if tables else pd.DataFrame()
    everything.map(harmless).to_csv(classroom.path / "report.csv", index=False)
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
        shown_columns = everything.drop(columns=["isolation", "seed"])
        for _, lines in shown_columns.groupby("unit", sort=False):
            used = [name for name in lines if name == "why" or (lines[name] != "–").any()]
            print(as_text(lines[used]) + "\n")
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
