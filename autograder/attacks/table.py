"""`python -m autograder.attacks.table`: write both ledgers of attacks into the instructor's pages.

Here are the parts that compare stock nbgrader with ours; `bare_table` has the one without
bubblewrap. A test requires the pages to hold what the ledgers say.
"""

import json
import sys
from typing import Any

from autograder.attacks import bare_table
from autograder.attacks.compare import NOT_ON_STOCK
from autograder.attacks.pages import filled, row_of
from autograder.attacks.run import UNREADABLE
from autograder.sandbox.launcher import REPO

RESULTS = REPO / "course/results/grader_attacks.json"
PAGES = {
    lang: REPO / f"course/instructor/isolation{end}"
    for lang, end in (("en", ".qmd"), ("zh", ".zh.qmd"))
}

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


MEASURED = {
    "en": "Measured on {date} with nbgrader {nbgrader}, nbclient {nbclient}, ipykernel {ipykernel},"
    " Python {python}, on {system}, isolation `{isolation}`; a cell had {timeout} s (nbgrader's"
    " default is 30 s).",
    "zh": "测量于 {date}：nbgrader {nbgrader}，nbclient {nbclient}，ipykernel {ipykernel}，"
    "Python {python}，{system}，隔离级别 `{isolation}`；每个单元格限时 {timeout} 秒（nbgrader"
    " 默认 30 秒）。",
}
JOINED = {
    "en": " The rows come from more than one run; the ledger's `note` says which.",
    "zh": "各行来自不止一次运行，账本的 `note` 写明了来源。",
}
UNTRIED = {
    "en": "Of {all} attacks, {untried} were not tried there: {names}.",
    "zh": "{all} 种攻击中有 {untried} 种没有在原版上试：{names}。",
}


def main() -> int:
    """Write the tables into both pages."""
    for lang, page in PAGES.items():
        page.write_text(filled(page.read_text(encoding="utf-8"), parts(lang)), encoding="utf-8")
        print(page.relative_to(REPO))
    return 0


def parts(lang: str) -> dict[str, str]:
    """The text of each marked part of a page, from the ledgers."""
    report = json.loads(RESULTS.read_text(encoding="utf-8"))
    return comparison(report, lang) | bare_table.parts(bare_table.read(), lang)


def comparison(report: Report, lang: str) -> dict[str, str]:
    """The parts on stock nbgrader and ours; the long table is in the English page only."""
    found = {
        "measured": measured(report, lang),
        "counts": counts(report, lang),
        "untried": untried(report, lang),
    }
    return found | ({"details": details(report)} if lang == "en" else {})


def measured(report: Report, lang: str) -> str:
    """When, with what and on what."""
    about = {key: report[key] for key in ("date", "python", "system", "isolation")}
    timeout = report["stock_cell_timeout_s"]
    text = MEASURED[lang].format(**about, **report["packages"], timeout=timeout)
    return text + (JOINED[lang] if "note" in report else "")


def untried(report: Report, lang: str) -> str:
    """The attacks that stock nbgrader was spared, and in English why."""
    names = [row["id"] for row in report["rows"] if row["stock"] is None]
    words = [f"`{name}` ({NOT_ON_STOCK[name]})" if lang == "en" else f"`{name}`" for name in names]
    joint = "; ".join(words) if lang == "en" else "、".join(words)
    return UNTRIED[lang].format(all=len(report["rows"]), untried=len(names), names=joint)


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
