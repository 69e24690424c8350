"""The rubric of a unit: what a person looks for, which vetoes there are, when a student passes."""

import re
from pathlib import Path
from typing import Any

import yaml

from autograder.assignment import ROOT

VETO = re.compile(r"\bVETO[ :]+([\w-]+)")
WORDS = {
    "en": {
        "heading": "For the person who grades {question}: {title} ({points} points)",
        "scale": "2: all three; 1: one missing or wrong; 0: otherwise",
        "object": "Object",
        "state_change": "State change",
        "chain": "Chain",
        "vetoes": "Vetoes (one fails the lesson): write the line in the comment of this answer",
        "reference": "Reference answer",
    },
    "zh": {
        "heading": "供评分者使用，{question}：{title}（{points} 分）",
        "scale": "2：三项齐全；1：缺一项或错一项；0：其他",
        "object": "对象",
        "state_change": "状态变化",
        "chain": "因果链",
        "vetoes": "一票否决（命中任一条即不通过）：把对应的一行写进本题的评语",
        "reference": "参考答案",
    },
}


class RubricError(ValueError):
    """The rubric is missing or does not fit the lesson; the message names the file or the id."""


def read_rubric(unit: str, root: Path = ROOT) -> dict[str, Any]:
    """solutions/<unit>/rubric.yml as data, with the keys that grading and report need."""
    path = root / "solutions" / unit / "rubric.yml"
    if not path.exists():
        raise RubricError(f"{path}: missing; a unit needs its rubric")
    rubric = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key in ("questions", "vetoes", "pass_rule"):
        if not isinstance(rubric, dict) or key not in rubric:
            raise RubricError(f"{path}: the key {key!r} is missing")
    return rubric


def for_instructor(unit: str, question: str, lang: str, reference: str) -> str:
    """The markdown beside a written answer in formgrader: criteria, vetoes, reference answer."""
    rubric, words = read_rubric(unit), WORDS[lang]
    if question not in rubric["questions"]:
        raise RubricError(f"rubric of {unit}: no entry for the question {question!r}")
    entry = rubric["questions"][question]
    head = words["heading"].format(
        question=question, title=entry["title"][lang], points=entry["points"]
    )
    criteria = [f"- **{words[key]}**: {text[lang]}" for key, text in entry["criteria"].items()]
    vetoes = [f"- `VETO {veto['id']}`: {veto[lang]}" for veto in rubric["vetoes"]]
    parts = [
        f"### {head}",
        words["scale"],
        "\n".join(criteria),
        f"**{words['vetoes']}**",
        "\n".join(vetoes),
        f"**{words['reference']}**",
        reference,
    ]
    return "\n\n".join(parts)


def vetoes_in(comment: str | None, rubric: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The veto ids of a comment: (those the rubric knows, those it does not)."""
    known = {veto["id"] for veto in rubric["vetoes"]}
    found = VETO.findall(comment or "")
    return [name for name in found if name in known], [name for name in found if name not in known]


def spell_out_vetoes(comment: str, rubric: dict[str, Any], lang: str) -> str:
    """A comment for the student: each `VETO id` followed by what it means."""
    texts = {veto["id"]: veto[lang] for veto in rubric["vetoes"]}
    return VETO.sub(
        lambda match: f"{match[0]} ({texts[match[1]]})" if match[1] in texts else match[0], comment
    )
