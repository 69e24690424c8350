"""Cheats earn nothing, leave nothing behind and learn no secret."""

import copy
import tempfile
from dataclasses import replace

import pytest
from grader_case import (
    ISOLATIONS,
    LIMITS,
    assert_honest_gets_full_marks,
    fill_in,
    grade,
    isolation_of,
    release,
    submission,
)

from lessons.lib.checks.asking import inputs_of

RIGHT = fill_in("right/cost_cumulative_product")
both = pytest.mark.parametrize("isolation", ISOLATIONS)

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
        return inputs_of(*key).random()

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
