"""Submissions that break, cheat or merely misbehave: a right score or a clear message each."""

from dataclasses import replace

import pytest
from grader_case import (
    COST,
    FIGURES,
    ISOLATIONS,
    LIMITS,
    MAP,
    UNIT,
    assert_honest_gets_full_marks,
    cell,
    fill_in,
    grade,
    isolation_of,
    release,
    submission,
    verdicts,
)
from nbformat.v4 import new_code_cell

from autograder import judge as judge_module
from autograder.judge import judge
from autograder.sandbox.launcher import Limits, SandboxError

RIGHT = fill_in("right/cost_cumulative_product")
both = pytest.mark.parametrize("isolation", ISOLATIONS)


@both
def test_an_honest_submission(isolation):
    level = isolation_of(isolation)
    assert_honest_gets_full_marks(level)
    judgement = grade(submission(), level)
    assert judgement.isolation.split("+")[0] == isolation
    assert (judgement.total, judgement.max) == (4, 10)
    assert "cpu (test)" in judgement["live"].reason and "ngram-4" in judgement["live"].reason


def test_an_untouched_release():
    judgement = grade(release())
    assert judgement.total == 0 and set(verdicts(judgement).values()) == {"fail"}
    words = "the blank in cell acceptance_cost_model is not filled in"
    assert {judgement[check].reason for check in ("main", "boundary", "live")} == {words}
    assert judgement["source_map"].reason == words.replace(COST, MAP)
    assert judgement.messages == ()


def test_the_chinese_release_is_judged_alike():
    notebook = release("zh")
    cell(notebook, COST).source = RIGHT
    judgement = grade(notebook)
    assert judgement["main"].verdict == "pass" and judgement.messages == ()


# Code that is right and merely noisy or odd keeps its points


@pytest.mark.parametrize(
    "addition",
    [
        "import warnings\nwarnings.warn('odd')",
        "print('x' * 10**6)",
        "import sys\nsys.stderr.write('noise')",
        "raise RuntimeError('after the definitions')",
        "assert False",
        "input('your name?')",
        "import sys\nsys.exit(0)",
        "%matplotlib inline",
        "display(expected_tokens_per_round([0.5]))",
        "import sys\nsys.setrecursionlimit(60)",
        "import builtins\nabs = builtins.abs = lambda x: 0",
        "import random, os\nrandom.seed(0)\nos.chdir('/')",
        "import sys\nsys.stdout.close()",
        "import sys\nsys.stdout = sys.stderr = None",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
    ],
)
def test_noise_behind_a_right_answer_costs_nothing(addition):
    judgement = grade(submission(cost=f"{RIGHT}\n{addition}\n"))
    assert (judgement["main"].points, judgement["boundary"].points) == (2, 1), judgement


@pytest.mark.parametrize(
    "extra",
    [
        "1 / 0",
        "while True: pass",
        "import os\nos._exit(1)",
        "this is no Python",
        "%%bash\nexit 1",
        "!rm -rf /tmp/x",
        "undefined_name",
        "x = bytearray(10**13)",
        "def expected_tokens_per_round(x): return 0",
        "source_objects = None",
        "import sys\nsys.exit(1)",
        "(" * 5000,
        "'\ud800'",
    ],
)
def test_an_extra_cell_costs_nothing(extra):
    judgement = grade(submission(extra=[extra]), limits=replace(LIMITS, cell_s=2.0))
    assert judgement.total == 4, judgement


def test_an_extra_cell_may_hold_what_the_answer_uses():
    cost = RIGHT.replace("itertools import accumulate", "itertools import accumulate as _")
    notebook = submission(cost=cost, extra=["def accumulate(items, f):\n    return _(items, f)"])
    assert grade(notebook).total == 4


# Code that is wrong gets a reason


@pytest.mark.parametrize(
    ("body", "verdict", "words"),
    [
        ("while True: pass", "invalid", "endless loop"),
        ("import os; os._exit(0)", "invalid", "ended the whole process"),
        ("import os; os.kill(os.getpid(), 9)", "invalid", "ended the whole process"),
        ("import sys; sys.exit(0)", "fail", "SystemExit"),
        ("return input()", "fail", "EOFError"),
        ("return expected_tokens_per_round(conditional_acceptance)", "fail", "RecursionError"),
        ("return bytearray(10**13)", "fail", "MemoryError"),
        ("return object()", "fail", "not plain data (object)"),
        ("return None", "fail", "returned None (is a return missing?)"),
        ("return True", "fail", "returned a bool"),
        ("return '2.64'", "fail", "returned a str"),
        ("return float('nan')", "fail", "not a finite number"),
        ("return 10**400", "fail", "not a finite number"),
        ("return [2.64]", "fail", "returned a list"),
        ("raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})", "fail", "Odd"),
        ("return 1 +", "fail", "cell acceptance_cost_model stopped with SyntaxError"),
    ],
)
def test_a_wrong_function_gets_a_reason(body, verdict, words):
    choose = RIGHT[RIGHT.index("def choose_spec_method") :]
    cost = f"def expected_tokens_per_round(conditional_acceptance):\n    {body}\n\n\n{choose}"
    judgement = grade(submission(cost=cost), limits=replace(LIMITS, call_s=1.0))
    assert (judgement["main"].points, judgement["boundary"].points) == (0, 0)
    assert judgement["main"].verdict == verdict and words in judgement["main"].reason
    assert judgement["source_map"].points == 1


def test_a_reason_is_one_printable_line():
    body = "raise type('A\\nB', (Exception,), {})('x\\n\\x1b[31m\\ud800\\u2028y' * 500)"
    reason = grade(submission(cost=f"def expected_tokens_per_round(x):\n    {body}"))["main"].reason
    assert reason.isprintable() and len(reason) < 400 and "raised A B: x ?[31m?" in reason


@pytest.mark.parametrize(
    "value",
    ["None", "{}", "[]", "{'draft_ms': object()}", "dict.fromkeys('abc', 1)", "{1: {2: {3: 4}}}"],
)
def test_a_wrong_source_map_gets_a_reason(value):
    judgement = grade(submission(source_map=f"source_objects = {value}"))
    assert judgement["source_map"].points == 0 and judgement["source_map"].reason
    assert judgement["main"].points == 2


def test_deleted_functions_are_named():
    reason = grade(submission(cost="pass"))["main"].reason
    assert reason == "expected_tokens_per_round is not defined: define it in cell " + COST


# When the grader itself cannot work


def test_a_broken_sandbox_is_nobodys_zero(monkeypatch):
    def refuse(*args):
        raise SandboxError("no worker today")

    monkeypatch.setattr("autograder.sandbox.session.Worker", refuse)
    judgement = grade(submission(), "rlimits")
    checks = [judgement[check] for check in ("main", "boundary", "source_map", "live")]
    assert {check.verdict for check in checks} == {"not_measured"}
    assert all("no worker today" in check.reason for check in checks)


def test_an_unknown_unit_is_named():
    with pytest.raises(judge_module.JudgeError, match="lesson99.*lesson08"):
        judge(release(), "lesson99", 1)


def test_cells_of_other_shapes_are_survived():
    notebook = submission()
    notebook.cells += [None, 3, {}, {"cell_type": "code"}, {"source": 5, "metadata": []}]
    notebook.cells.append(new_code_cell(["x = 1\n", "y = 2"]))
    notebook.metadata = []
    assert grade(notebook).total == 4


def test_the_names_in_this_file_are_those_of_the_lesson():
    ids = {c.get("id") for c in release().cells}
    assert {COST, MAP} <= ids and FIGURES.best()[0] == "ngram-4" and UNIT == "lesson08"
    assert Limits().call_s > LIMITS.call_s
