"""Submissions that break, cheat or merely misbehave: a right score or a clear message each."""

import copy
import tempfile
from dataclasses import replace

import pytest
from grader_case import (
    COST,
    FIGURES,
    ISOLATIONS,
    LIMITS,
    MAP,
    UNIT,
    cell,
    fill_in,
    grade,
    isolation_of,
    release,
    submission,
)
from nbformat.v4 import new_code_cell

from autograder import judge as judge_module
from autograder.checks.asking import hidden_inputs
from autograder.judge import judge
from autograder.sandbox.launcher import Limits, SandboxError

RIGHT = fill_in("right/cost_cumulative_product")
both = pytest.mark.parametrize("isolation", ISOLATIONS)


def verdicts(judgement):
    return {check.id: check.verdict for check in judgement.checks}


def points(judgement):
    return {check.id: check.points for check in judgement.checks}


def assert_honest_gets_full_marks(isolation=None):
    """The next student in line: nothing of the one before may be left."""
    judgement = grade(submission(q1="My answer."), isolation)
    assert points(judgement) == dict(main=2, boundary=1, source_map=1, live=0, q1=0, q2=0, q3=0)
    assert verdicts(judgement) == {
        "main": "pass",
        "boundary": "pass",
        "source_map": "pass",
        "live": "pass",
        "q1": "not_measured",
        "q2": "fail",
        "q3": "fail",
    }


@both
def test_an_honest_submission(isolation):
    level = isolation_of(isolation)
    assert_honest_gets_full_marks(level)
    judgement = grade(submission(), level)
    assert judgement.isolation == isolation
    assert (judgement.total, judgement.max) == (4, 10)
    assert "cpu (test)" in judgement["live"].reason and "ngram-4" in judgement["live"].reason


def test_an_untouched_release():
    judgement = grade(release())
    assert judgement.total == 0 and set(verdicts(judgement).values()) == {"fail"}
    words = "the blank in cell acceptance_cost_model is not filled in"
    assert {judgement[check].reason for check in ("main", "boundary", "live")} == {words}
    assert "not filled in: conditional_acceptance" in judgement["source_map"].reason
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


# Cheats earn nothing


CHEATS = {
    "returns an object that equals everything": """
class Any(float):
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True
    __hash__ = float.__hash__
def expected_tokens_per_round(conditional_acceptance): return Any(1.0)
def choose_spec_method(*args, **kwargs): return ("block", Any(9.0))
""",
    "patches what a test in the same process would use": """
import builtins, math, json, sys
math.isclose = lambda *a, **k: True
builtins.abs = lambda x: 0
builtins.isinstance = lambda *a: True
json.dumps = lambda *a, **k: "{}"
def expected_tokens_per_round(conditional_acceptance): return 1.0
def choose_spec_method(*args, **kwargs): return ("block", 9.0)
""",
    "answers the printed assertions": """
def expected_tokens_per_round(conditional_acceptance):
    if any(not 0 <= p <= 1 for p in conditional_acceptance): raise ValueError
    return 2.64 if list(conditional_acceptance) == [0.8, 0.7, 0.5] else 1.0
def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    return ("block", 2.4) if baseline_ms_per_token == 10.0 else ("baseline", 1.0)
""",
    "looks for the grader's files": """
import glob, os
def expected_tokens_per_round(conditional_acceptance):
    for pattern in ("/**/checks/cost_model.py", "/**/solutions/**/*.qmd", "/**/grader_seed"):
        for path in glob.glob(pattern, recursive=True):
            return 2.64
    raise LookupError("nothing found")
def choose_spec_method(*args, **kwargs): return ("block", 2.4)
""",
    "reads the caller's frames": """
import gc, sys
def expected_tokens_per_round(conditional_acceptance):
    frame, seen = sys._getframe(), []
    while frame:
        seen += [v for v in frame.f_locals.values() if isinstance(v, float)]
        frame = frame.f_back
    return seen[0] if seen else 1.0
def choose_spec_method(*args, **kwargs): return ("baseline", 1.0)
""",
    "writes its own verdict into every channel": """
import os
REPLY = b'{"id": 1, "points": 2, "verdict": "pass", "value": 2.64, "args": [], "total": 10}\\n'
def expected_tokens_per_round(conditional_acceptance):
    for fd in range(1, 64):
        try: os.write(fd, REPLY)
        except OSError: pass
    os._exit(0)
def choose_spec_method(*args, **kwargs): return ("block", 2.4)
""",
    "changes its inputs so that the result fits": """
def expected_tokens_per_round(conditional_acceptance):
    conditional_acceptance[:] = []
    return 1.0
def choose_spec_method(methods, *args, **kwargs):
    methods[:] = []
    return ("baseline", 1.0)
""",
}


@pytest.mark.sandbox
@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_earns_nothing(name):
    judgement = grade(submission(cost=CHEATS[name]), limits=replace(LIMITS, call_s=1.0))
    assert judgement["main"].points == 0 and judgement["live"].verdict != "pass", judgement
    assert_honest_gets_full_marks()


@both
def test_what_a_submission_leaves_behind_reaches_nobody(isolation, tmp_path, monkeypatch):
    level = isolation_of(isolation)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cost = f"""{RIGHT}
import os, subprocess, sys
for folder in (os.path.expanduser("~"), os.getcwd()):
    for name in ("sitecustomize.py", "itertools.py", "numpy.py", "wire.py"):
        try:
            with open(os.path.join(folder, name), "w") as file: file.write("1/0")
        except OSError: pass
try:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
except OSError: pass
"""
    assert grade(submission(cost=cost), level).total == 4
    assert_honest_gets_full_marks(level)
    assert list(tmp_path.iterdir()) == []


def test_notebook_structure_earns_nothing():
    """Test cells rewritten, retyped, retagged, worth more: the score comes from elsewhere."""
    notebook = release()
    for c in notebook.cells:
        if c.metadata.nbgrader.grade:
            c.metadata.nbgrader.points = 1000
            c.metadata.nbgrader.solution = True
            c.metadata.tags = ["skip-execution"]
            c.source = "2.0"
    judgement = grade(notebook)
    assert (judgement.total, judgement.max) == (0, 10)
    assert any("skip-execution" in message for message in judgement.messages)


# Secrets


def test_no_reason_shows_a_hidden_input():
    cost = """
class Telling(Exception):
    pass
def expected_tokens_per_round(conditional_acceptance):
    if list(conditional_acceptance) == [0.8, 0.7, 0.5]:
        return 2.64
    name = repr(conditional_acceptance)
    raise type(name, (Telling,), {"__module__": "builtins"})(name)
def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    if methods and methods[0]["name"] == "tree":
        return ("block", 2.4) if memory_budget_gb == 8 else ("baseline", 1.0)
    raise Telling(repr(methods))
"""
    for check in grade(submission(cost=cost)).checks[:4]:
        assert "0." not in check.reason and "[" not in check.reason, check


def test_hidden_inputs_depend_on_seed_unit_and_check_only():
    def draw(*key):
        return hidden_inputs(*key).random()

    assert draw(1, "lesson08", "main") == draw(1, "lesson08", "main")
    keys = [(1, "lesson08", "main"), (2, "lesson08", "main"), (1, "lesson08", "live")]
    assert len({draw(*key) for key in keys}) == 3


def test_the_same_seed_gives_the_same_judgement():
    notebook = submission(cost=fill_in("wrong/cost_rounded"))
    assert grade(notebook, seed=3) == grade(notebook, seed=3)


def test_judging_changes_nothing_in_the_notebook():
    notebook = submission(extra=["x = 1"])
    before = copy.deepcopy(notebook)
    grade(notebook)
    assert notebook == before


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
