"""`python -m autograder.attacks.table RESULTS [--lang zh]`: the comparison as markdown.

The instructor's page holds what this prints; a test compares them.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.attacks.run import UNREADABLE

Report = dict[str, Any]

HARMS = {
    "gains": ("earns points that it did not earn", "得到不该得的分"),
    "loses": ("costs a right answer its points", "使正确答案失分"),
    "others": ("changes another student's marks or files", "改动其他学生的成绩或文件"),
    "next": (
        "leaves the next student without marks or with wrong ones",
        "使下一个学生没有成绩或成绩有误",
    ),
    "left": ("leaves a file or a process", "留下文件或进程"),
    "network": ("reaches the network", "连上网络"),
    "person": ("stays ungraded until a person looks", "在人工处理之前没有成绩"),
}
HEADS = {
    "en": ("What the attack does", "stock nbgrader", "this grader"),
    "zh": ("攻击造成的后果", "原版 nbgrader", "本评分程序"),
}
DETAILS = ("Attack", "What it tries", "Stock nbgrader", "This grader")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables of a results file."""
    parser = argparse.ArgumentParser(prog="python -m autograder.attacks.table")
    parser.add_argument("results", type=Path)
    parser.add_argument("--lang", choices=sorted(HEADS), default="en")
    options = parser.parse_args(argv)
    report = json.loads(options.results.read_text(encoding="utf-8"))
    print(counts(report, options.lang))
    if options.lang == "en":
        print(f"\n{details(report)}")
    return 0


def counts(report: Report, lang: str) -> str:
    """How many attacks did each kind of harm, on the attacks that were tried on both."""
    tried = [row for row in report["rows"] if row["stock"]]
    lines = [row_of(HEADS[lang]), "|---|---:|---:|"]
    for name, words in HARMS.items():
        stock = sum(name in harms(report, row) for row in tried)
        ours = sum(name in our_harms(row) for row in tried)
        text = words[list(HEADS).index(lang)]
        lines.append(row_of((text, f"{stock} / {len(tried)}", f"{ours} / {len(tried)}")))
    return "\n".join(lines)


def details(report: Report) -> str:
    """Every attack that does some harm to stock nbgrader, and what it gets here."""
    lines = [row_of(DETAILS), "|---|---|---|---|"]
    for row in report["rows"]:
        found = harms(report, row) if row["stock"] else {}
        if found:
            words = "; ".join(found.values())
            lines.append(row_of((f"`{row['id']}`", row["what"], words, row["ours"]["got"])))
    return "\n".join(lines)


def row_of(cells: Sequence[str]) -> str:
    """A line of a markdown table."""
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def harms(report: Report, row: dict[str, Any]) -> dict[str, str]:
    """What an attack did to stock nbgrader, by name, in words."""
    found, carries = row["stock"], row["carries"]
    deserved = report["plain_on_stock"]["right" if carries == "right" else "wrong"]
    points = f"{found['points']:g} of 4 points, {deserved:g} deserved"
    harmed_next = found["honest_points"] != report["plain_on_stock"]["right"]
    words = {
        "gains": (points, found["points"] > deserved and carries != "own"),
        "loses": (points, found["points"] < deserved),
        "others": ("another student's marks or files changed", found["victim_harmed"]),
        "next": ("the next student has no or other marks", harmed_next),
        "left": ("something left behind", found["files_left"] or found["left_process"]),
        "network": ("connected", found["called_home"]),
        "person": ("waits for a person", found["waits_for_person"]),
    }
    return {name: text for name, (text, is_so) in words.items() if is_so}


def our_harms(row: dict[str, Any]) -> set[str]:
    """The same for our grader: what waits, and anything that is not exactly as expected."""
    if row["ours"]["ok"]:
        return {"person"} if row["ours"]["got"].endswith(UNREADABLE) else set()
    kinds = {"marks of others": "others", "files of others": "others", "network": "network"}
    named = {kinds.get(text.split(":")[0], "left") for text in row["ours"]["problems"]}
    return named or {"gains"}


if __name__ == "__main__":
    sys.exit(main())
