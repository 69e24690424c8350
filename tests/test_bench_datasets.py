"""Files in published layouts: what is read of them, and how a bad line is named."""

import gzip
import json

import pytest

from kernels.runtime import InputError
from lessons.lib.bench.datasets import CATEGORY_KINDS, read_prompts
from lessons.lib.bench.workload import KINDS

SPEC_BENCH = [
    {"question_id": 1, "category": "math_reasoning", "turns": ["2 + 2?"], "reference": ["4"]},
    {"question_id": 2, "category": "rag", "turns": ["Who?\n\nA passage."]},
    {"question_id": 81, "category": "writing", "turns": ["Write a poem.", "Make it longer."]},
]
GSM8K = [{"question": "How many apples?", "answer": "Six. #### 6"}]
HUMAN_EVAL = [
    {"task_id": "HumanEval/0", "prompt": "def f():\n", "canonical_solution": "return 1", "test": ""}
]


def write(path, rows):
    text = "\n".join(json.dumps(row) for row in rows) + "\n\n"
    path.write_text(text, encoding="utf-8")
    return path


def test_spec_bench_and_mt_bench(tmp_path):
    prompts = read_prompts(write(tmp_path / "question.jsonl", SPEC_BENCH))
    assert [prompt.kind for prompt in prompts] == ["maths", "copy", "chat"]
    assert [prompt.name for prompt in prompts] == ["question-1", "question-2", "question-81"]
    assert prompts[2].text == "Write a poem."


def test_gsm8k_without_its_answers(tmp_path):
    (prompt,) = read_prompts(write(tmp_path / "test.jsonl", GSM8K))
    assert (prompt.kind, prompt.name, prompt.text) == ("maths", "test-1", "How many apples?")


def test_human_eval_plain_and_packed(tmp_path):
    plain = read_prompts(write(tmp_path / "HumanEval.jsonl", HUMAN_EVAL))
    packed = tmp_path / "HumanEval.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "HumanEval.jsonl").read_bytes()))
    assert read_prompts(packed) == plain
    assert plain[0].kind == "code" and plain[0].name == "HumanEval/0"
    assert plain[0].text.endswith("def f():") and "return 1" not in plain[0].text


def test_categories_map_to_known_kinds():
    assert set(CATEGORY_KINDS.values()) <= set(KINDS)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not valid JSON"),
        ("[1]", "line 2: not a JSON object"),
        ('{"text": "hello"}', "line 2: unknown layout"),
        ('{"category": "poems", "turns": ["x"]}', "line 2: unknown category 'poems'"),
        ('{"category": "qa", "turns": []}', "line 2: the prompt must be text"),
        ('{"category": "qa", "turns": [[15, 27, 3]]}', "token ids are refused"),
        ('{"question": "  ", "answer": "1"}', "line 2: the prompt must be text"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(GSM8K[0]) + "\n" + line, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_prompts(path)


def test_absent_empty_and_binary_files(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        read_prompts(tmp_path / "none.jsonl")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    with pytest.raises(InputError, match="holds no prompt"):
        read_prompts(empty)
    binary = tmp_path / "bad.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot read"):
        read_prompts(binary)
