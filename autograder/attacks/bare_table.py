"""The table of the instructor's pages on a grader without bubblewrap, from the ledger of `bare`."""

import json
from typing import Any

from autograder.attacks.bare import KILLED, NEXT_HARMED, NOT_TRIED
from autograder.attacks.pages import row_of
from autograder.sandbox.launcher import REPO

RESULTS = REPO / "course/results/grader_attacks_bare.json"
LANGUAGES = ("en", "zh")
HARMS = {
    "marks of others": ("other students' marks changed", "改动了其他学生的成绩"),
    "files of others": ("other students' files changed", "改动了其他学生的文件"),
    "left-over files": ("files left behind", "留下了文件"),
    "left-over processes": ("processes left behind", "留下了进程"),
    "network": ("the network reached", "连上了网络"),
    KILLED: ("the grader killed", "评分程序被杀死"),
    NEXT_HARMED: ("the next student without marks", "下一个学生没有成绩"),
    "shown": ("something secret shown", "看到了秘密"),
    "judged": ("judged otherwise than it deserved: {got}", "评判有误：{got}"),
}
TEXT = {
    "en": "Measured on {date} with Python {python} on {system}, isolation `{isolation}`. Of {all}"
    " attacks {untried} was not tried ({names}: root's processes are not limited, and nothing would"
    " stop it). Process limits stopped {stopped} of the other {tried}. What the rest did:",
    "zh": "测量于 {date}：Python {python}，{system}，隔离级别 `{isolation}`。{all} 种攻击中有"
    " {untried} 种没有试（{names}：root 的进程数不受限制，没有什么能拦住它）。其余 {tried} 种中，"
    "进程限制拦下了 {stopped} 种。没有拦下的造成了：",
}
HEADS = {"en": ("Attack", "What it did"), "zh": ("攻击", "后果")}

Report = dict[str, Any]


def read() -> Report:
    """The committed ledger."""
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def parts(report: Report, lang: str) -> dict[str, str]:
    """The one marked part."""
    rows = report["rows"]
    about = {key: report[key] for key in ("date", "python", "system", "isolation")}
    counts = {"all": len(rows) + len(NOT_TRIED), "untried": len(NOT_TRIED), "tried": len(rows)}
    counts["stopped"] = sum(row["ok"] for row in rows)
    names = ", ".join(f"`{name}`" for name in NOT_TRIED)
    lines = [row_of(HEADS[lang]), "|---|---|"]
    for row in rows:
        if not row["ok"]:
            texts = [HARMS[name][LANGUAGES.index(lang)] for name in harms(row)]
            words = [text.format(got=row["got"]) for text in texts]
            lines.append(row_of((f"`{row['id']}`", ("; " if lang == "en" else "；").join(words))))
    text = TEXT[lang].format(**about, **counts, names=names)
    return {"bare": text + "\n\n" + "\n".join(lines)}


def harms(row: dict[str, Any]) -> list[str]:
    """The kinds of harm that an attack did, each once."""
    heads = [text.split(":")[0] for text in row["problems"]]
    return list(dict.fromkeys(head if head in HARMS else "shown" for head in heads)) or ["judged"]
