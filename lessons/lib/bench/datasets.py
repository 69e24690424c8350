"""Prompts from local files in the layouts in which benchmarks are published.

Only the prompt is read, never the answer, and of a conversation only its first turn.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kernels.runtime import InputError
from lessons.lib.bench.workload import Prompt

Row = dict[str, Any]

# Categories of MT-Bench (the first eight) and Spec-Bench, by the kind whose acceptance they share:
# what is copied from the prompt, what is worked out, what is written freely.
CATEGORY_KINDS = {
    "writing": "chat",
    "roleplay": "chat",
    "reasoning": "maths",
    "math": "maths",
    "coding": "code",
    "extraction": "copy",
    "stem": "chat",
    "humanities": "chat",
    "translation": "chat",
    "summarization": "copy",
    "qa": "chat",
    "math_reasoning": "maths",
    "rag": "copy",
}


def read_prompts(path: Path) -> list[Prompt]:
    """Every line of a .jsonl or .jsonl.gz file; its keys tell the layout.

    question_id, category, turns   Spec-Bench and MT-Bench
    task_id, prompt                HumanEval
    question, answer               GSM8K
    InputError names the line that cannot be read, and refuses token ids in place of text.
    """
    prompts = [_prompt(path, number, row) for number, row in _rows(path)]
    if not prompts:
        raise InputError(f"{path}: holds no prompt")
    return prompts


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _parse(path, number, line)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error


def _parse(path: Path, number: int, line: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"{path}, line {number}: not valid JSON ({error})") from error
    if not isinstance(row, dict):
        raise InputError(f"{path}, line {number}: not a JSON object")
    return row


def _prompt(path: Path, number: int, row: Row) -> Prompt:
    where = f"{path}, line {number}"
    if "turns" in row:
        kind = CATEGORY_KINDS.get(str(row.get("category")))
        if kind is None:
            raise InputError(
                f"{where}: unknown category {row.get('category')!r}; "
                f"known are {', '.join(CATEGORY_KINDS)}"
            )
        turns = row["turns"]
        text = turns[0] if isinstance(turns, list) and turns else None
        return Prompt(kind, f"{path.stem}-{row.get('question_id', number)}", _text(where, text))
    if "task_id" in row and "prompt" in row:
        code = _text(where, row["prompt"])
        return Prompt("code", str(row["task_id"]), f"Complete this Python code:\n\n{code}")
    if "question" in row and "answer" in row:
        return Prompt("maths", f"{path.stem}-{number}", _text(where, row["question"]))
    raise InputError(
        f"{where}: unknown layout (keys {', '.join(row)}); known are Spec-Bench and MT-Bench "
        "(category, turns), HumanEval (task_id, prompt) and GSM8K (question, answer)"
    )


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(
            f"{where}: the prompt must be text, not {type(value).__name__}; "
            "token ids are refused, because random tokens inflate acceptance"
        )
    return value.rstrip()
