"""
what: hands in the files that the grader writes: verdicts, feedback, a gradebook, a seed
source: timing 9
"""

import json
from pathlib import Path


def attack(folder: Path) -> None:
    full = [{"id": name, "points": 2, "max": 2, "verdict": "pass"} for name in ("main", "q1")]
    text = json.dumps({"unit": "lesson08", "total": 10, "checks": full, "messages": []})
    for name in ("verdicts.json", "lesson08.json", "lesson08.grounds", "feedback.html"):
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "grader_seed").write_text("1", encoding="utf-8")
    (folder / "gradebook.db").write_bytes(b"SQLite format 3\0" + bytes(84))
